#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace dp::trainer {

// A library loaded at run time. It is never unloaded, because its threads may still run. A plain
// value.
class LoadedLibrary {
 public:
  // Loads the first of `names` that can be loaded. Errors: NotFound with the loader's message for
  // each.
  static absl::StatusOr<LoadedLibrary> OneOf(const std::vector<std::string>& names);

  // Errors: NotFound.
  template <typename Function>
  absl::StatusOr<Function> Find(const char* name) const {
    if (void* found = Entry(name)) return reinterpret_cast<Function>(found);
    return absl::NotFoundError(absl::StrCat("it has no ", name));
  }

 private:
  explicit LoadedLibrary(void* handle) : handle_(handle) {}
  void* Entry(const char* name) const;  // null: no such entry

  void* handle_;
};

}  // namespace dp::trainer
