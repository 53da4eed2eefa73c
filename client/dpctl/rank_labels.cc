#include "client/dpctl/rank_labels.h"

#include <utility>

#include "client/dpctl/job_calls.h"

namespace dp::ctl {

bool RankLabels::Enter(uint64_t generation) {
  if (generation <= generation_) return false;
  const bool another = std::exchange(generation_, generation) != 0;
  if (another) asked_ = false;
  return another;
}

void RankLabels::Learn(const v1::Job& job) {
  hosts_.clear();
  learned_ = job.generation();
  for (const v1::Rank& rank : job.ranks()) hosts_[rank.rank()] = rank.host();
}

std::string RankLabels::Host(int rank, const std::string& before) {
  const bool known = learned_ == generation_ && hosts_.contains(rank);
  if (!known && !asked_) {
    asked_ = true;
    const absl::StatusOr<v1::Job> job = GetJob(context_, job_);
    if (job.ok()) Learn(*job);  // else the line does without
  }
  if (learned_ != generation_) return "";
  const auto host = hosts_.find(rank);
  return host == hosts_.end() || host->second.empty() ? "" : before + host->second;
}

}  // namespace dp::ctl
