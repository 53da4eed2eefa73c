#include "worker/library/module_function.h"

#include <dlfcn.h>

#include <filesystem>

namespace dp::library {
namespace {

std::string PathBesideThisLibrary(const std::string& file) {
  Dl_info here = {};
  const auto* address = reinterpret_cast<const void*>(&PathBesideThisLibrary);
  if (dladdr(address, &here) == 0 || here.dli_fname == nullptr) return file;
  return std::filesystem::path(here.dli_fname).parent_path() / file;
}

int ModeOf(ModuleScope scope) {
#ifdef __SANITIZE_ADDRESS__
  constexpr int kOwn = 0;  // the sanitizer forbids it
#else
  constexpr int kOwn = RTLD_DEEPBIND;
#endif
  return RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | (scope == ModuleScope::kOwn ? kOwn : 0);
}

}  // namespace

absl::StatusOr<void*> FindInModule(const std::string& file, const char* name, ModuleScope scope) {
  void* const module = dlopen(PathBesideThisLibrary(file).c_str(), ModeOf(scope));
  void* const found = module != nullptr ? dlsym(module, name) : nullptr;
  if (found != nullptr) return found;
  return absl::UnimplementedError(dlerror());
}

}  // namespace dp::library
