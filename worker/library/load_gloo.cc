#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "worker/library/gloo_module.h"

// Loads the module that holds Gloo. The program may have another Gloo with the same names, as
// LibTorch does. The module therefore sees its own libraries first, and nobody sees its names.

namespace dp::library {
namespace {

#ifdef DP_GLOO_MODULE

// The module lies beside this library.
std::string ModulePath() {
  Dl_info here = {};
  const auto* address = reinterpret_cast<const void*>(&ModulePath);
  if (dladdr(address, &here) == 0 || here.dli_fname == nullptr) return DP_GLOO_MODULE;
  return std::filesystem::path(here.dli_fname).parent_path() / DP_GLOO_MODULE;
}

absl::StatusOr<ConnectGlooInModule*> LoadModule() {
  const std::string path = ModulePath();
#ifdef __SANITIZE_ADDRESS__
  constexpr int kOwnScope = 0;  // the sanitizer forbids it
#else
  constexpr int kOwnScope = RTLD_DEEPBIND;
#endif
  // Stays loaded: groups and their threads use its code.
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | kOwnScope);
  void* connect = module != nullptr ? dlsym(module, kConnectGlooInModule) : nullptr;
  if (connect != nullptr) return reinterpret_cast<ConnectGlooInModule*>(connect);
  return absl::UnimplementedError(
      absl::StrCat("backend gloo cannot be loaded: ", dlerror(),
                   "; install the library's files together, and Gloo (libgloo0 on Debian)"));
}

#else

absl::StatusOr<ConnectGlooInModule*> LoadModule() {
  return absl::UnimplementedError("built without Gloo");
}

#endif

}  // namespace
}  // namespace dp::library

namespace dp::engine {

absl::StatusOr<std::unique_ptr<Group>> ConnectGloo(Store& store, int rank, int size,
                                                   const GlooOptions& options,
                                                   std::stop_token stop) {
  static const absl::StatusOr<library::ConnectGlooInModule*> connect = library::LoadModule();
  if (!connect.ok()) return connect.status();
  absl::StatusOr<std::unique_ptr<Group>> group = absl::UnknownError("no answer of Gloo's module");
  (*connect)(store, rank, size, options, std::move(stop), group);
  return group;
}

}  // namespace dp::engine
