#include "server/connections/abandoned_calls.h"

#include <algorithm>

namespace dp::server {

bool AbandonedCalls::IsDue(uint64_t rejected, absl::Time now) const {
  const absl::Duration took = ended_at_ - begun_at_;
  const absl::Duration pause = std::max(kLookEvery, took / kTimeOfLooks);
  return rejected - rejected_ >= limits_.rejected && now - begun_at_ >= pause;
}

void AbandonedCalls::BeginLook(absl::Time now) {
  first_of_series_ = now - ended_at_ >= kSeriesEndsAfter;
  if (first_of_series_) before_series_.clear();
  begun_at_ = now;
}

void AbandonedCalls::EndLook(uint64_t rejected, absl::Time now) {
  rejected_ = rejected;
  ended_at_ = now;
}

bool AbandonedCalls::AreTooMany(const StreamCounts& counts, bool stranger) {
  const uint64_t abandoned = counts.begun - std::min(counts.begun, counts.messages);
  if (stranger) return abandoned > limits_.of_stranger;
  if (first_of_series_) before_series_[counts.end] = abandoned;
  const auto before = before_series_.find(counts.end);
  return abandoned > limits_.of_connection + (before == before_series_.end() ? 0 : before->second);
}

}  // namespace dp::server
