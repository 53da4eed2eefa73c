#include "worker/trainer/program/loaded_library.h"

#include <dlfcn.h>

#include "absl/strings/str_join.h"

namespace dp::trainer {

absl::StatusOr<LoadedLibrary> LoadedLibrary::OneOf(const std::vector<std::string>& names) {
  std::vector<std::string> errors;
  for (const std::string& name : names) {
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return LoadedLibrary(handle);
    errors.emplace_back(dlerror());
  }
  return absl::NotFoundError(absl::StrJoin(errors, "; "));
}

void* LoadedLibrary::Entry(const char* name) const { return dlsym(handle_, name); }

}  // namespace dp::trainer
