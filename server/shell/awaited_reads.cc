#include "server/shell/awaited_reads.h"

namespace dp::server {

bool AwaitedReads::AllFound(const KeyValues& store) {
  const auto missing = [&](size_t read) { return !store.Found(reads_[read]); };
  if (missing_ < reads_.size() && missing(missing_)) return false;
  missing_ = 0;
  while (missing_ < reads_.size() && !missing(missing_)) ++missing_;
  return missing_ == reads_.size();
}

std::vector<core::Topic> StoreTopics(JobId job, const std::vector<std::string>& keys) {
  std::vector<core::Topic> topics{{.kind = core::Topic::Kind::kWorld, .id = job.value()}};
  for (const std::string& key : keys) {
    topics.push_back({.kind = core::Topic::Kind::kStoreKey, .id = job.value(), .key = key});
  }
  return topics;
}

}  // namespace dp::server
