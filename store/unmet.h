#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

// A thing that a blocked call still waits for: for its deadline's message, and for whoever asks why
// the call blocks.

namespace dp {

struct Unmet {
  enum class What { kKey, kQueue, kBarrier, kChange };
  What what = What::kKey;
  std::string key;
  int64_t arrived = 0;  // with kBarrier: `arrived` of `count`
  int64_t count = 0;

  bool operator==(const Unmet&) const = default;
};

// The key in quotes, with odd bytes escaped and cut if long: fit for a message.
std::string PrintableKey(absl::string_view key);
// "key 'k'", "queue 'q'", "barrier 'b' (2 of 3 have arrived)", "change of key 'k'".
std::string Describe(const Unmet& unmet);
// Describes the first few and counts the rest: a status travels in a header of 8 KiB.
std::string Describe(absl::Span<const Unmet> unmet);
// The status of a wait that has timed out.
absl::Status StillMissing(absl::Span<const Unmet> unmet, absl::Duration waited);

}  // namespace dp
