#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/bounded_queue.h"
#include "base/overloaded.h"
#include "worker/agent/processes/process_runner.h"

namespace dp::worker {

// "started", "code 3", "signal 9", "gone".
inline std::string Describe(const ProcessNews& news) {
  return std::visit(
      Overloaded{
          [](const ProcessStarted&) -> std::string { return "started"; },
          [](const ProcessNotStarted& not_started) { return "not started: " + not_started.error; },
          [](const ProcessExited& exited) {
            const bool code = exited.exit.how == Exit::How::kCode;
            return absl::StrCat(code ? "code " : "signal ", exited.exit.number);
          },
          [](const ProcessGone&) -> std::string { return "gone"; },
      },
      news.what);
}

// The news of a runner, for a test that reads them in turn. Sinks are called on any thread; the
// rest is for the test's thread.
class NewsInTurn {
 public:
  std::function<void(ProcessNews)> Sink() {
    return [this](ProcessNews news) { queue_.TryPush(news); };
  }

  // Waits for the next news; none on timeout.
  std::optional<ProcessNews> Next() {
    if (arrived_.empty()) {
      for (ProcessNews& each : queue_.DrainFor(absl::Seconds(20))) arrived_.push_back(each);
    }
    if (arrived_.empty()) return std::nullopt;
    ProcessNews next = std::move(arrived_.front());
    arrived_.pop_front();
    return next;
  }

  // Whether no further news has arrived.
  bool empty() { return arrived_.empty() && queue_.DrainFor(absl::ZeroDuration()).empty(); }

 private:
  BoundedQueue<ProcessNews> queue_{100};
  std::deque<ProcessNews> arrived_;
};

}  // namespace dp::worker
