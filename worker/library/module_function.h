#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace dp::library {

// Which libraries a module finds first.
enum class ModuleScope { kOwn, kOfProgram };

// The function `name` of the module `file`, which lies beside this library. The module stays
// loaded: groups and their threads use its code. Errors: Unimplemented, in the system's words.
absl::StatusOr<void*> FindInModule(const std::string& file, const char* name, ModuleScope scope);

}  // namespace dp::library
