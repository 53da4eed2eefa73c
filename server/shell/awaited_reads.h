#pragma once

#include <string>
#include <vector>

#include "base/id.h"
#include "base/store/key_values.h"
#include "base/store/operation.h"
#include "server/core/outcome.h"

namespace dp::server {

// Reads that somebody waits for, asked again whenever one of them may have been found. Not
// thread-safe; owned by the question of a parked call.
class AwaitedReads {
 public:
  explicit AwaitedReads(std::vector<StoreOperation> reads) : reads_(std::move(reads)) {}

  // A wait for many keys is asked again at each of them: looking first at the one that was missing
  // last makes that one look, not many.
  bool AllFound(const KeyValues& store);
  const std::vector<StoreOperation>& reads() const { return reads_; }

 private:
  const std::vector<StoreOperation> reads_;
  size_t missing_ = 0;  // of the reads, the one that was missing when asked last
};

// What an await of the keys depends on: they, and the world, with which the store ends.
std::vector<core::Topic> StoreTopics(JobId job, const std::vector<std::string>& keys);

}  // namespace dp::server
