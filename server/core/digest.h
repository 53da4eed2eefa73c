#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/id.h"
#include "server/core/state.h"

namespace dp::core {

// FNV-1a (64 bits) over a sequence of values: the same on every platform and in every release. The
// state after a replay can therefore be compared with a number written down earlier. Strings carry
// their length, so that ("ab", "c") differs from ("a", "bc").
class Digest {
 public:
  Digest& Add(uint64_t value);
  Digest& Add(absl::string_view bytes);
  Digest& Add(absl::Time time);
  template <typename Tag>
  Digest& Add(Id<Tag> id) {
    return Add(id.value());
  }

  uint64_t value() const { return value_; }

 private:
  void Byte(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }

  uint64_t value_ = 0xcbf29ce484222325;
};

// The digest of the whole state, to compare two states. It is no hash of bytes: files have a
// SHA-256 hash for that. Replay of the same journal gives the same digest, in this release and in
// later ones.
uint64_t DigestOf(const State& state);

}  // namespace dp::core
