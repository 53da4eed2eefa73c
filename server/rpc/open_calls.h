#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/time/time.h"

namespace dp::server {

// The calls that a server has open, and which of them it must end. These are calls that last too
// long. While answers hold too much memory, they are also calls whose answers nobody takes.
//
// Pure: time is an argument, and never goes back. Not thread-safe.
class OpenCalls {
 public:
  using Id = uint64_t;

  struct Limits {
    // From the request until the caller has taken the answer. Twice the longest wait of a call.
    absl::Duration lasts = absl::Seconds(120);
    // Bytes of all answers on their way.
    size_t answer_bytes = size_t{128} << 20;
    // Beyond them, answers that have been on their way for this long are given up, oldest first. A
    // client that reads takes an answer of the largest size within this, in a slow network.
    absl::Duration taken_within = absl::Seconds(2);
  };

  explicit OpenCalls(const Limits& limits) : limits_(limits) {}

  Id Begin(absl::Time now);
  // The call has its answer. Without effect, as End, if the call does not count any more.
  void Answer(Id call, size_t bytes, absl::Time now);
  void End(Id call);

  // The calls to end now. They do not count any more.
  std::vector<Id> TakeOverdue(absl::Time now);
  // When TakeOverdue may have calls to return; infinite: not before another call begins.
  absl::Time next_at() const;

  size_t size() const { return calls_.size(); }
  size_t answer_bytes() const { return answer_bytes_; }

 private:
  struct Call {
    absl::Time begun_at;
    uint64_t answer = 0;  // 0: none yet
  };
  struct Sent {
    Id call = 0;
    size_t bytes = 0;
    absl::Time at;
  };

  const Limits limits_;
  Id last_ = 0;
  uint64_t last_answer_ = 0;
  std::map<Id, Call> calls_;       // in the order of their beginnings
  std::map<uint64_t, Sent> sent_;  // in the order of the answers
  size_t answer_bytes_ = 0;
};

}  // namespace dp::server
