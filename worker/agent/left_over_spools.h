#pragma once

#include <cstddef>
#include <filesystem>
#include <set>
#include <vector>

#include "base/id.h"
#include "worker/agent/spool/log_shipper.h"
#include "worker/core/rank.h"

namespace dp::worker {

// The spools of ranks that the daemon holds no longer, or that belong to earlier daemons. They stay
// until the coordinator has stored their output. At most `max` are kept; those of the oldest jobs
// go first. Not thread-safe, except found().
class LeftOverSpools {
 public:
  // `shipper` may still be under construction.
  LeftOverSpools(std::filesystem::path state_dir, size_t max, LogShipper& shipper);

  // Sends the output that ranks of earlier daemons left in the spool. Call it once, at the start.
  void FollowFound();
  // The ranks that FollowFound has found. Any thread, after FollowFound.
  const std::vector<RankKey>& found() const { return found_; }

  // The daemon holds the rank no longer.
  void Add(const RankKey& key);
  bool contains(const RankKey& key) const { return keys_.contains(key); }
  // Stops following the spool of any rank and removes it.
  void Drop(const RankKey& key);

 private:
  std::vector<RankKey> TakeExcess();

  const std::filesystem::path state_dir_;
  const size_t max_;
  LogShipper& shipper_;
  std::set<RankKey> keys_;
  std::vector<RankKey> found_;
};

}  // namespace dp::worker
