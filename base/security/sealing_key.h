#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dp::security {

// Seals values that lie where others can read and change them: nobody reads or alters a sealed
// value without the key. AES-256-GCM with a random nonce for each value, so equal values differ
// once they are sealed. One key is good for 2^32 values. Thread-safe.
class SealingKey {
 public:
  static constexpr size_t kBytes = 32;

  // A new random key.
  static SealingKey Make();
  // `bytes` as bytes() has returned them. Errors: InvalidArgument of another length.
  static absl::StatusOr<SealingKey> From(absl::string_view bytes);
  // Secret.
  std::string bytes() const { return {bytes_.begin(), bytes_.end()}; }

  // `place` says where the value belongs; it is a part of the seal, but cannot be read from it.
  std::string Seal(absl::string_view value, absl::string_view place) const;
  // The value, if the same key has sealed it for the same place.
  // Errors: FailedPrecondition another key has sealed it; DataLoss it was changed, cut or moved, or
  // a later release has sealed it.
  absl::StatusOr<std::string> Open(absl::string_view sealed, absl::string_view place) const;

 private:
  SealingKey() = default;
  // Distinguishes keys, and says nothing of the key.
  std::string id() const;

  std::array<unsigned char, kBytes> bytes_{};
};

}  // namespace dp::security
