#include "worker/agent/left_over_spools.h"

#include <map>
#include <utility>

#include "worker/agent/rank_log.h"
#include "worker/agent/spool/log_spool.h"

namespace dp::worker {

LeftOverSpools::LeftOverSpools(std::filesystem::path state_dir, size_t max, LogShipper& shipper)
    : state_dir_(std::move(state_dir)), max_(max), shipper_(shipper) {}

void LeftOverSpools::FollowFound() {
  const std::vector<RankKey> found = LogSpool::Find(state_dir_);
  keys_.insert(found.begin(), found.end());
  for (const RankKey& oldest : TakeExcess()) LogSpool(state_dir_, oldest).Remove();
  found_.assign(keys_.begin(), keys_.end());
  std::map<RankKey, LogSpool> spools;
  for (const RankKey& key : keys_) {
    LogRank(Severity::kInfo, "spool_found", key);
    spools.emplace(key, LogSpool(state_dir_, key));
  }
  shipper_.FollowLeftOvers(std::move(spools));
}

void LeftOverSpools::Add(const RankKey& key) {
  keys_.insert(key);
  for (const RankKey& oldest : TakeExcess()) Drop(oldest);
}

void LeftOverSpools::Drop(const RankKey& key) {
  keys_.erase(key);
  shipper_.Drop(key);
  LogSpool(state_dir_, key).Remove();
}

std::vector<RankKey> LeftOverSpools::TakeExcess() {
  std::vector<RankKey> excess;
  while (keys_.size() > max_) {
    excess.push_back(*keys_.begin());
    keys_.erase(keys_.begin());
    LogRank(Severity::kWarning, "spool_given_up", excess.back(), LogField("left_overs_max", max_));
  }
  return excess;
}

}  // namespace dp::worker
