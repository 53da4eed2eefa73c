#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "absl/time/time.h"
#include "base/bounded_queue.h"

namespace dp::server {

// What grpc.health.v1 tells.
struct Health {
  bool driver = true;  // it answers
  bool logs = true;    // what ranks write is stored

  bool operator==(const Health&) const = default;
};

// Finds out whether the driver still answers, for grpc.health.v1: gRPC's own threads would say that
// all is well while nothing is decided any more. Asks a question of the driver now and then, on a
// thread of its own, and tells when answers stay away and when they come again; and likewise
// whether logs are stored.
class HealthWatch {
 public:
  struct Options {
    // Between two questions, and how long one is waited for before it counts as missed.
    absl::Duration interval = absl::Seconds(5);
    // So many in a row are too many. A disk may be slow for a while: half a minute.
    int missed_max = 6;
  };
  // Asks; calls its argument when there is an answer, on any thread, at most once. Returns false,
  // and never calls it, when the question cannot be asked now.
  using Ask = std::function<bool(std::function<void()> answered)>;
  // Any thread; must not block.
  using LogsAreStored = std::function<bool()>;
  // Called on the thread of the watch when it has changed; all is well when it begins.
  using Tell = std::function<void(const Health&)>;

  HealthWatch(const Options& options, Ask ask, LogsAreStored logs_are_stored, Tell tell);
  // Returns when the thread has ended; answers that come later are dropped.
  ~HealthWatch();

 private:
  struct Answer {};

  void Run();
  // Waits for the answer to a question, of now or of before.
  bool Answered();

  const Options options_;
  const Ask ask_;
  const LogsAreStored logs_are_stored_;
  const Tell tell_;
  // Shared with questions under way. Closed: the end.
  const std::shared_ptr<BoundedQueue<Answer>> answers_;
  bool asked_ = false;
  std::jthread thread_;  // last: it starts when all else is there
};

}  // namespace dp::server
