#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace dp::trainer {

// SHA-256 of `bytes` in hex, as sha256sum prints it. OpenSSL's, which uses the processor's own
// instructions where it has them: a checkpoint is hashed at about the speed of a disk.
std::string Sha256Hex(absl::string_view bytes);

}  // namespace dp::trainer
