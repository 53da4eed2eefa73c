#include "server/logs/recent_pages.h"

#include <utility>

namespace dp::server {

std::shared_ptr<const LogPage> RecentPages::Find(JobId job, const LogQuery& query,
                                                 uint64_t version) const {
  for (const Entry& entry : entries_) {
    if (entry.job == job && entry.page->version == version && entry.query == query)
      return entry.page;
  }
  return nullptr;
}

std::shared_ptr<const LogPage> RecentPages::Keep(JobId job, LogQuery query, LogPage page) {
  if (entries_.size() == kPagesMax) entries_.pop_front();
  auto kept = std::make_shared<const LogPage>(std::move(page));
  entries_.push_back({job, std::move(query), kept});
  return kept;
}

}  // namespace dp::server
