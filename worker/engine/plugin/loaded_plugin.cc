#include "worker/engine/plugin/loaded_plugin.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "worker/engine/plugin/plugin_table.h"

namespace dp::engine {
namespace {

std::string LastError() {
  const char* text = dlerror();
  return text == nullptr ? "the loader does not say why" : text;
}

absl::Status Faulty(const std::string& library, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("plug-in library '", library, "' ", what));
}

}  // namespace

absl::StatusOr<LoadedPlugin> LoadedPlugin::Load(const std::string& library) {
  std::error_code error;
  if (!std::filesystem::exists(library, error)) {
    return absl::NotFoundError(
        absl::StrCat("plug-in library '", library, "' is not on this host (",
                     error ? error.message() : std::strerror(ENOENT),
                     "); put the same file there on every host, where ranks may read it"));
  }
  // Never closed: its code may have started threads, and may be called until the process ends.
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return Faulty(library, absl::StrCat("cannot be loaded: ", LastError(),
                                        "; build it as a shared library for this host's system, "
                                        "with all that it needs"));
  }
  const auto entry = reinterpret_cast<DpPluginEntry>(dlsym(handle, DP_PLUGIN_ENTRY));
  if (entry == nullptr) {
    return Faulty(library, absl::StrCat("has no symbol ", DP_PLUGIN_ENTRY,
                                        "; name its layers by DP_PLUGIN of <dp/plugin.h>"));
  }
  const DpPlugin* const table = entry();
  if (table == nullptr) return Faulty(library, absl::StrCat(DP_PLUGIN_ENTRY, " gives no table"));
  return Of(*table, library);
}

absl::StatusOr<LoadedPlugin> LoadedPlugin::Of(const DpPlugin& table, const std::string& library) {
  if (table.abi != DP_PLUGIN_ABI) {
    return Faulty(
        library,
        absl::StrCat("has version ", table.abi, " of the plug-in interface, and this trainer has ",
                     DP_PLUGIN_ABI, "; build it with the <dp/plugin.h> of this release of dp"));
  }
  LoadedPlugin loaded(table, library);
  if (table.kind_count < 1 || table.kinds == nullptr) {
    return Faulty(library, "has no layers; name some in DP_PLUGIN");
  }
  for (const DpPluginKind& kind :
       absl::MakeConstSpan(table.kinds, static_cast<size_t>(table.kind_count))) {
    if (kind.name == nullptr || kind.make == nullptr) {
      return Faulty(library, "has a layer without a name, or without make");
    }
  }
  return loaded;
}

std::vector<std::string> LoadedPlugin::names() const {
  std::vector<std::string> names;
  for (int32_t i = 0; i < table_->kind_count; ++i) names.emplace_back(table_->kinds[i].name);
  return names;
}

absl::StatusOr<std::shared_ptr<const model::PluginKind>> LoadedPlugin::Find(
    const std::string& layer) const {
  for (int32_t i = 0; i < table_->kind_count; ++i) {
    const DpPluginKind& kind = table_->kinds[i];
    const bool only = layer.empty() && table_->kind_count == 1;
    if (only || kind.name == layer) return KindOf(kind, library_);
  }
  const std::string all = absl::StrJoin(names(), ", ");
  if (layer.empty()) {
    return Faulty(library_, absl::StrCat("has several layers; give plugin.layer, one of ", all));
  }
  return Faulty(library_, absl::StrCat("has no layer '", layer, "'; there are: ", all));
}

}  // namespace dp::engine
