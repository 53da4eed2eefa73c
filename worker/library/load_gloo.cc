#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "worker/library/gloo_module.h"
#include "worker/library/module_function.h"

// Loads the module that holds Gloo. The program may have another Gloo with the same names, as
// LibTorch does. The module therefore sees its own libraries first, and nobody sees its names.

namespace dp::library {
namespace {

absl::StatusOr<ConnectGlooInModule*> LoadGloo() {
#ifdef DP_GLOO_MODULE
  const absl::StatusOr<void*> connect =
      FindInModule(DP_GLOO_MODULE, kConnectGlooInModule, ModuleScope::kOwn);
  if (connect.ok()) return reinterpret_cast<ConnectGlooInModule*>(*connect);
  return absl::UnimplementedError(
      absl::StrCat("backend gloo cannot be loaded: ", connect.status().message(),
                   "; install the library's files together, and Gloo (libgloo0 on Debian)"));
#else
  return absl::UnimplementedError("built without Gloo");
#endif
}

}  // namespace
}  // namespace dp::library

namespace dp::engine {

absl::StatusOr<std::unique_ptr<Group>> ConnectGloo(Store& store, int rank, int size,
                                                   const GlooOptions& options,
                                                   std::stop_token stop) {
  static const absl::StatusOr<library::ConnectGlooInModule*> connect = library::LoadGloo();
  if (!connect.ok()) return connect.status();
  absl::StatusOr<std::unique_ptr<Group>> group = absl::UnknownError("no answer of Gloo's module");
  (*connect)(store, rank, size, options, std::move(stop), group);
  return group;
}

}  // namespace dp::engine
