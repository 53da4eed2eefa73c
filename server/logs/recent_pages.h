#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "server/logs/log_chunk.h"

namespace dp::server {

// The pages of logs that were read last, kept so that a page is read once for all followers of a
// job. Not thread-safe; owned by LogThread. No clock.
class RecentPages {
 public:
  // Enough for followers of eight jobs at once; a page has about 1 MiB.
  static constexpr size_t kPagesMax = 8;

  // The page that answered `query` when the logs of `job` were at `version`; null if that page is
  // not kept.
  std::shared_ptr<const LogPage> Find(JobId job, const LogQuery& query, uint64_t version) const;
  // Keeps a page that was just read, in place of the oldest one.
  std::shared_ptr<const LogPage> Keep(JobId job, LogQuery query, LogPage page);

 private:
  struct Entry {
    JobId job;
    LogQuery query;
    std::shared_ptr<const LogPage> page;
  };
  std::deque<Entry> entries_;  // oldest first
};

}  // namespace dp::server
