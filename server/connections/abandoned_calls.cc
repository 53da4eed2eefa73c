#include "server/connections/abandoned_calls.h"

#include <algorithm>

namespace dp::server {

bool AbandonedCalls::IsDue(uint64_t rejected, absl::Time now) const {
  return rejected - rejected_ >= limits_.rejected && now >= look_at_;
}

void AbandonedCalls::Looked(uint64_t rejected, absl::Time began, absl::Time ended) {
  rejected_ = rejected;
  look_at_ = began + std::max(kLookEvery, (ended - began) / kTimeOfLooks);
}

bool AbandonedCalls::AreTooMany(const StreamCounts& counts, bool stranger) const {
  return counts.begun > counts.messages + (stranger ? limits_.of_stranger : limits_.of_connection);
}

}  // namespace dp::server
