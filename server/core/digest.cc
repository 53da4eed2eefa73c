#include "server/core/digest.h"

namespace dp::core {

Digest& Digest::Add(uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) Byte(static_cast<uint8_t>(value >> shift));
  return *this;
}

Digest& Digest::Add(absl::string_view bytes) {
  Add(bytes.size());
  for (const char byte : bytes) Byte(static_cast<uint8_t>(byte));
  return *this;
}

Digest& Digest::Add(absl::Time time) { return Add(static_cast<uint64_t>(absl::ToUnixNanos(time))); }

}  // namespace dp::core
