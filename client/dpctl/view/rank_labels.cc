#include "client/dpctl/view/rank_labels.h"

#include <utility>

#include "absl/strings/str_cat.h"
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
  if (job.ranks().empty()) return;  // not placed now
  std::map<int, uint64_t> workers;
  for (const v1::Rank& rank : job.ranks()) workers[rank.rank()] = rank.worker_id();
  local_ranks_.clear();
  std::map<uint64_t, int> ranks_on;
  for (const auto& [rank, worker] : workers) local_ranks_[rank] = ranks_on[worker]++;
}

void RankLabels::Learn(const LogLine& line) {
  if (!line.host.empty()) told_.insert_or_assign({line.generation, line.rank}, line.host);
}

std::string RankLabels::HostOf(const LogLine& line) {
  return line.host.empty() ? Host(line.generation, line.rank) : line.host;
}

std::string RankLabels::Of(const LogLine& line) {
  const std::string host = HostOf(line);
  return absl::StrCat("[", line.rank, host.empty() ? "" : " ", host, "]");
}

std::string RankLabels::Host(uint64_t generation, int rank) {
  const auto told = told_.find({generation, rank});
  if (told != told_.end()) return told->second;
  const bool known = learned_ == generation && hosts_.contains(rank);
  if (!known) Ask();
  if (learned_ != generation) return "";
  const auto host = hosts_.find(rank);
  return host == hosts_.end() ? "" : host->second;
}

int RankLabels::LocalRankOf(const LogLine& line) {
  if (learned_ != line.generation || !local_ranks_.contains(line.rank)) Ask();
  const auto found = local_ranks_.find(line.rank);
  return found == local_ranks_.end() ? line.rank : found->second;
}

void RankLabels::Ask() {
  if (asked_) return;
  asked_ = true;
  const absl::StatusOr<v1::Job> job = GetJob(context_, job_);
  if (job.ok()) Learn(*job);  // else the label has no host
}

}  // namespace dp::ctl
