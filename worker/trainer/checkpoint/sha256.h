#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dp::trainer {

// The SHA-256 of `bytes` in hex, as sha256sum prints it. OpenSSL uses the processor's own
// instructions where there are any, so it hashes a checkpoint at about the speed of a disk.
std::string Sha256Hex(absl::string_view bytes);

// The same of an open file, from its current position to its end, without holding it in memory.
// Errors: the system's, with `path`.
absl::StatusOr<std::string> Sha256HexOfFile(int fd, const std::string& path);

}  // namespace dp::trainer
