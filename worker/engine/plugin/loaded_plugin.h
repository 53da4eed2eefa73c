#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/model/plugin_layer.h"

namespace dp::engine {

// A library of layers that a user has written (docs/plugins.md). Its code stays in the process,
// whose rights it has. Immutable.
class LoadedPlugin {
 public:
  // Loads a library by its path; runs its initializers. Errors: NotFound there is no such file;
  // InvalidArgument it is no library for this host, or no plug-in of this version. Each names the
  // library, what is missing and a remedy.
  static absl::StatusOr<LoadedPlugin> Load(const std::string& library);
  // A table of this program, under a library's name. Errors: InvalidArgument as Load's.
  static absl::StatusOr<LoadedPlugin> Of(const DpPlugin& table, const std::string& library);

  // The layer of this name; without a name the only one. Errors: InvalidArgument lists the layers.
  absl::StatusOr<std::shared_ptr<const model::PluginKind>> Find(const std::string& layer) const;

 private:
  LoadedPlugin(const DpPlugin& table, std::string library)
      : table_(&table), library_(std::move(library)) {}

  std::vector<std::string> names() const;

  const DpPlugin* table_;
  std::string library_;
};

}  // namespace dp::engine
