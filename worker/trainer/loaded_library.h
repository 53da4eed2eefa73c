#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace dp::trainer {

// A library that a program asks for at run time. It stays loaded, as its threads may use it. A
// plain value.
class LoadedLibrary {
 public:
  // The first of these that can be loaded. Errors: NotFound, with what the loader says of each.
  static absl::StatusOr<LoadedLibrary> OneOf(const std::vector<std::string>& names);

  // Errors: NotFound.
  template <typename Function>
  absl::StatusOr<Function> Find(const char* name) const {
    if (void* found = Entry(name)) return reinterpret_cast<Function>(found);
    return absl::NotFoundError(absl::StrCat("it has no ", name));
  }

 private:
  explicit LoadedLibrary(void* handle) : handle_(handle) {}
  void* Entry(const char* name) const;  // null: there is none

  void* handle_;
};

}  // namespace dp::trainer
