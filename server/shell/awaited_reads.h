#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/id.h"
#include "base/store/key_values.h"
#include "base/store/operation.h"
#include "server/core/outcome.h"
#include "server/shell/waiters.h"

namespace dp::server {

// Reads that somebody waits for, asked again whenever one of them may have been found. Not
// thread-safe; owned by the question of a parked call.
class AwaitedReads {
 public:
  // Whether they are to be found all at one moment, or each once: then what was found counts, even
  // when it has gone since, and an element of a queue is found only when it is offered, as a
  // change.
  enum class Mode { kTogether, kEach };

  AwaitedReads(std::vector<StoreOperation> reads, Mode mode);
  AwaitedReads(const AwaitedReads&) = delete;
  AwaitedReads& operator=(const AwaitedReads&) = delete;

  // Looks again; `changed` since it looked last.
  bool AllFound(const KeyValues& store, Waiters::Changed changed);
  // As they are in the store; with kEach, those that were found as they were then.
  std::vector<StoreResult> Results(const KeyValues& store) const;
  Mode mode() const { return mode_; }

 private:
  bool AllThere(const KeyValues& store);
  void LookAtAll(const KeyValues& store);
  void LookAt(size_t read, const KeyValues& store, bool was_there);

  const std::vector<StoreOperation> reads_;
  const Mode mode_;
  size_t missing_ = 0;  // kTogether: the read that was missing when asked last
  // kEach:
  std::vector<StoreResult> results_;  // of those that were found
  size_t unmet_ = 0;
  bool looked_ = false;
  absl::flat_hash_map<absl::string_view, std::vector<size_t>> by_name_;  // into reads_
};

// What an await of the reads depends on: their names, and the world, with which the store ends.
// Precondition: all of them can be awaited (AwaitedKeys).
std::vector<core::Topic> StoreTopics(JobId job, absl::Span<const StoreOperation> reads);

}  // namespace dp::server
