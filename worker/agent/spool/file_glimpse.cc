#include "worker/agent/spool/file_glimpse.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace dp::worker {
namespace {

constexpr absl::Duration kLongerEachTime = absl::Milliseconds(100);
constexpr absl::Duration kLongest = absl::Minutes(1);

}  // namespace

bool WasEmptied(const FileGlimpse& before, uint64_t size_now, absl::string_view head_now) {
  return size_now < before.size || !absl::StartsWith(head_now, before.head);
}

absl::Time NextGlimpse(int times, absl::Time at) {
  return at + std::min(times * kLongerEachTime, kLongest);
}

}  // namespace dp::worker
