#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace dp::client {

// The contents of a file, pipe or terminal, to its end or to `bytes_max`. Blocks while a pipe or
// terminal is open and has no data, until the descriptor `stop` is readable; -1 for none.
// Errors: Cancelled by `stop`; NotFound it cannot be read, with the system's reason alone.
absl::StatusOr<std::string> ReadInput(const std::string& path, size_t bytes_max, int stop);

}  // namespace dp::client
