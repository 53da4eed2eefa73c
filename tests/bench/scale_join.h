#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/time/time.h"
#include "base/backoff.h"
#include "dp/v1/worlds.grpc.pb.h"
#include "tests/bench/scale_timer.h"

namespace dp::bench {

// Acts as all ranks of a job's first generation until they know that their world is sealed. The
// ranks of a host share a connection: one for each would need more descriptors than a test machine
// has.
class Assembly {
 public:
  Assembly(const std::string& address, uint64_t job, int hosts, int slots);

  // Opens the connections; returns when all are open.
  void Connect();
  // All ranks join at once, and watch until the world is sealed. Returns when the last rank knows.
  // Call it once.
  void Join();

  int refused() const { return refused_; }
  // The size of all answers, without the transport's overhead.
  uint64_t answer_bytes() const { return answer_bytes_; }

 private:
  struct Place {
    v1::Worlds::Stub* worlds;
    v1::JoinRequest join;
    Backoff pause;  // after a rejected call, as ranks back off
  };

  void JoinOne(Place& place);
  void Watch(Place& place, uint64_t since);
  // Handles an answer of either call.
  void Take(Place& place, const v1::World& world, uint64_t answer_bytes);

  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::vector<std::unique_ptr<v1::Worlds::Stub>> worlds_;  // one for each channel
  std::vector<Place> places_;
  std::atomic<int> refused_ = 0;
  std::atomic<uint64_t> answer_bytes_ = 0;
  absl::BlockingCounter unsealed_;  // ranks that do not know that the world is sealed
  Timer timer_;                     // last: its callbacks use the others
};

}  // namespace dp::bench
