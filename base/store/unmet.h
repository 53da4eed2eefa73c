#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

// What a blocked call still waits for: for its deadline's message, and for who asks why it blocks.

namespace dp {

struct Unmet {
  enum class What { kKey, kQueue, kBarrier, kChange };
  What what = What::kKey;
  std::string key;
  int64_t arrived = 0;  // with kBarrier: `arrived` of `count`
  int64_t count = 0;

  bool operator==(const Unmet&) const = default;
};

// Quoted, its odd bytes escaped, a long one cut: fit for a message.
std::string PrintableKey(absl::string_view key);
// "key 'k'", "queue 'q'", "barrier 'b' (2 of 3 have arrived)", "change of key 'k'".
std::string Describe(const Unmet& unmet);
// The first few, and how many more: a status travels in a header of 8 KiB.
std::string Describe(absl::Span<const Unmet> unmet);
// The answer of a wait that has run out of time.
absl::Status StillMissing(absl::Span<const Unmet> unmet, absl::Duration waited);

}  // namespace dp
