#include "worker/engine/ddp/bucket_schedule.h"

#include <utility>

#include "base/check.h"

namespace dp::engine {

BucketSchedule::BucketSchedule(std::vector<Bucket> plan) : plan_(std::move(plan)) {
  for (int b = 0; b < static_cast<int>(plan_.size()); ++b) {
    DP_CHECK(plan_[b].first_parameter == static_cast<int>(bucket_of_.size()));
    bucket_of_.insert(bucket_of_.end(), plan_[b].parameters, b);
  }
  Begin();
}

void BucketSchedule::Begin() {
  ready_.assign(bucket_of_.size(), false);
  waiting_.clear();
  for (const Bucket& bucket : plan_) waiting_.push_back(bucket.parameters);
  next_ = 0;
}

std::vector<int> BucketSchedule::Ready(int parameter) {
  DP_CHECK(parameter >= 0 && parameter < static_cast<int>(ready_.size()));
  DP_CHECK(!ready_[parameter]);
  ready_[parameter] = true;
  waiting_[bucket_of_[parameter]] -= 1;
  std::vector<int> launch;
  while (next_ < static_cast<int>(plan_.size()) && waiting_[next_] == 0) launch.push_back(next_++);
  return launch;
}

std::vector<int> BucketSchedule::Unready() const {
  std::vector<int> unready;
  for (int p = 0; p < static_cast<int>(ready_.size()); ++p)
    if (!ready_[p]) unready.push_back(p);
  return unready;
}

}  // namespace dp::engine
