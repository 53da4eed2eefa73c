#pragma once

#include <deque>
#include <memory>

#include "grpcpp/support/slice.h"
#include "server/logs/log_chunk.h"
#include "server/logs/recent_pages.h"

namespace dp::server {

// Encodes pages as the bytes of a v1::ReadLogsResponse without its header, once for all followers
// of a job. Not thread-safe; used on the log thread.
class PageBytes {
 public:
  // `finished` belongs to the query that `page` answers. Copies of the slice share its memory.
  grpc::Slice Of(const std::shared_ptr<const LogPage>& page, bool finished);

 private:
  struct Entry {
    std::shared_ptr<const LogPage> page;  // kept, so that no other page gets its address
    grpc::Slice bytes;
  };
  std::deque<Entry> entries_;  // oldest first, at most RecentPages::kPagesMax
};

}  // namespace dp::server
