#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/access/caller.h"
#include "server/access/rpc.h"

namespace dp::server {

// A call that was refused; calls of one caller for one reason that follow each other are one.
struct RefusedCall {
  absl::Time at;  // the last of them
  std::string caller;
  std::string peer;
  Rpc rpc = {};
  std::string reason;
  uint64_t count = 1;
};

// The latest refused calls, for `dpctl audit`, and a line in the log for each. Bounded: a flood of
// calls fills neither memory nor disk. Thread-safe.
class Refusals {
 public:
  static constexpr size_t kKept = 1'000;
  // Bytes of a text that are kept; it may repeat what the caller sent.
  static constexpr size_t kTextBytesMax = 1'024;
  // Lines in the log: so many at once, and then one each so often.
  static constexpr int kLinesAtOnce = 50;
  static constexpr absl::Duration kLineEvery = absl::Seconds(1);

  void Add(const Caller& caller, Rpc rpc, const absl::Status& why, absl::Time at) DP_EXCLUDES(mu_);
  // Oldest first.
  std::deque<RefusedCall> Latest() const DP_EXCLUDES(mu_);

 private:
  bool MayLog(absl::Time at) DP_REQUIRES(mu_);

  mutable Mutex mu_;
  std::deque<RefusedCall> latest_ DP_GUARDED_BY(mu_);
  double lines_left_ DP_GUARDED_BY(mu_) = kLinesAtOnce;
  absl::Time counted_at_ DP_GUARDED_BY(mu_) = absl::UnixEpoch();
};

}  // namespace dp::server
