#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/id.h"
#include "server/core/outcome.h"
#include "server/driver/waiters.h"
#include "store/key_values.h"
#include "store/operation.h"

namespace dp::server {

// Reads that a caller waits for, retried whenever one of them may have been found. Not thread-safe;
// owned by the question of a parked call.
class AwaitedReads {
 public:
  // kTogether: all reads must be found at the same moment. kEach: each read must be found once. A
  // key then counts as found even if it is deleted later. A queue's element is found only when a
  // change offers it.
  enum class Mode { kTogether, kEach };

  AwaitedReads(std::vector<StoreOperation> reads, Mode mode);
  AwaitedReads(const AwaitedReads&) = delete;
  AwaitedReads& operator=(const AwaitedReads&) = delete;

  // Looks again. `changed` are the topics that changed since the last look.
  bool AllFound(const KeyValues& store, Waiters::Changed changed);
  // The present results; with kEach, the results from when each read was found.
  std::vector<StoreResult> Results(const KeyValues& store) const;
  Mode mode() const { return mode_; }

 private:
  bool AllThere(const KeyValues& store);
  void LookAtAll(const KeyValues& store);
  void LookAt(size_t read, const KeyValues& store, bool was_there);

  const std::vector<StoreOperation> reads_;
  const Mode mode_;
  size_t missing_ = 0;  // kTogether: the read that was missing in the last look
  // kEach:
  std::vector<StoreResult> results_;  // of the reads that were found
  size_t unmet_ = 0;
  bool looked_ = false;
  absl::flat_hash_map<absl::string_view, std::vector<size_t>> by_name_;  // into reads_
};

// The topics that an await of the reads depends on: their names, and the world, whose end also ends
// the store. Precondition: all reads can be awaited (AwaitedKeys).
std::vector<core::Topic> StoreTopics(JobId job, absl::Span<const StoreOperation> reads);

}  // namespace dp::server
