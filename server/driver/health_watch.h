#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "absl/time/time.h"
#include "base/bounded_queue.h"

namespace dp::server {

// The health that grpc.health.v1 reports.
struct Health {
  bool driver = true;  // the driver answers
  bool logs = true;    // ranks' output is stored

  bool operator==(const Health&) const = default;
};

// Finds out whether the driver still answers, for grpc.health.v1: gRPC's own threads would report
// health even if the driver hung. A thread asks the driver at intervals, and reports when answers
// stop and when they resume. It also reports whether logs are stored.
class HealthWatch {
 public:
  struct Options {
    // The time between two questions, and how long an answer may take before it counts as missed.
    absl::Duration interval = absl::Seconds(5);
    // Reports a silent driver after this many missed answers in a row. A disk may be slow for half
    // a minute.
    int missed_max = 6;
  };
  // Asks, and calls its argument when there is an answer, on any thread, at most once. Returns
  // false, and never calls it, if the question cannot be asked now.
  using Ask = std::function<bool(std::function<void()> answered)>;
  // Called on the thread of the watch; must not block.
  using LogsAreStored = std::function<bool()>;
  // Called on the thread of the watch when the health has changed. At the beginning all is well.
  using Tell = std::function<void(const Health&)>;

  HealthWatch(const Options& options, Ask ask, LogsAreStored logs_are_stored, Tell tell);
  // Returns when the thread has ended; later answers are dropped.
  ~HealthWatch();

 private:
  struct Answer {};

  void Run();
  // Whether a question, asked now or earlier, was answered within the interval.
  bool Answered();

  const Options options_;
  const Ask ask_;
  const LogsAreStored logs_are_stored_;
  const Tell tell_;
  // Shared with questions in flight. The destructor closes the queue.
  const std::shared_ptr<BoundedQueue<Answer>> answers_;
  bool asked_ = false;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace dp::server
