#pragma once

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "tests/bench/scale_fleet.h"

namespace dp::bench {

// Plays all ranks of a job until they know that their world is sealed.
class Assembly {
 public:
  explicit Assembly(Fleet& fleet) : fleet_(fleet) {}

  // The daemons report every rank started; returns when the coordinator has answered.
  void ReportStarted() DP_EXCLUDES(mu_);
  // Every rank joins, all at once, and watches until the world is sealed. Returns how long it took
  // until the last one knew.
  absl::Duration Join() DP_EXCLUDES(mu_);

  int refused() const { return refused_; }
  // Bytes of all answers, without the transport's own.
  uint64_t answer_bytes() const { return answer_bytes_; }

 private:
  struct Place {
    Host* host = nullptr;
    v1::JoinRequest join;
  };

  void Started(Host& host, v1::ReportRankRequest report);
  void JoinOne(const Place& place, int tries);
  void Watch(const Place& place, uint64_t since, int tries);
  // Goes on after an answer of either call.
  void Take(const Place& place, const v1::World& world, uint64_t answer_bytes);
  void Begin(size_t calls) DP_EXCLUDES(mu_);
  void Done() DP_EXCLUDES(mu_);
  void Await() DP_EXCLUDES(mu_);

  Fleet& fleet_;
  std::atomic<int> refused_ = 0;
  std::atomic<uint64_t> answer_bytes_ = 0;
  Mutex mu_;
  CondVar changed_;
  size_t open_ DP_GUARDED_BY(mu_) = 0;
};

}  // namespace dp::bench
