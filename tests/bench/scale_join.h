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

// Plays all ranks of the first generation of a job until they know that their world is sealed. The
// ranks of a host share a connection: one for each would take more descriptors than a test machine
// has.
class Assembly {
 public:
  Assembly(const std::string& address, uint64_t job, int hosts, int slots);

  // Opens the connections; returns when all are open.
  void Connect();
  // Every rank joins, all at once, and watches until the world is sealed. Returns once the last
  // one knows. Call it once.
  void Join();

  int refused() const { return refused_; }
  // Bytes of all answers, without the transport's own.
  uint64_t answer_bytes() const { return answer_bytes_; }

 private:
  struct Place {
    v1::Worlds::Stub* worlds;
    v1::JoinRequest join;
    Backoff pause;  // after a refusal, as ranks back off
  };

  void JoinOne(Place& place);
  void Watch(Place& place, uint64_t since);
  // Goes on after an answer of either call.
  void Take(Place& place, const v1::World& world, uint64_t answer_bytes);

  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::vector<std::unique_ptr<v1::Worlds::Stub>> worlds_;  // one for each channel
  std::vector<Place> places_;
  std::atomic<int> refused_ = 0;
  std::atomic<uint64_t> answer_bytes_ = 0;
  absl::BlockingCounter unsealed_;  // ranks that do not know it yet
  Timer timer_;                     // last: it calls the others
};

}  // namespace dp::bench
