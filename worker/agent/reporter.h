#pragma once

#include <optional>
#include <thread>
#include <variant>

#include "base/bounded_queue.h"
#include "client/connection.h"
#include "dp/v1/workers.pb.h"
#include "worker/agent/events.h"
#include "worker/agent/launch/missing_torch.h"

namespace dp::worker {

// Sends one report at a time to the coordinator, from its own thread, and posts the answer to
// `events`. A file system that does not answer may block the thread. No report leaves then, but the
// daemon keeps its lease and its ranks. The agent decides on retries. The owner cancels the calls
// in flight on `connection` before it destroys the reporter.
class Reporter {
 public:
  struct Report {
    RankKey key;
    Milestone milestone = Milestone::kNone;
    v1::ReportRankRequest request;
    // The program of a rank that found no PyTorch. The reporter adds a last line that names its
    // Python.
    std::optional<TorchlessProgram> lacks_torch = {};
  };

  // A report on all slots of this worker.
  struct SlotsReport {
    v1::ReportSlotsRequest request;
  };

  Reporter(client::Connection& connection, Events& events);
  ~Reporter();

  // The previous report must have been answered. Any thread.
  void Send(std::variant<Report, SlotsReport> report);

 private:
  void Loop();
  void Carry(const Report& report);
  void Carry(const SlotsReport& report);

  client::Connection& connection_;
  Events& events_;
  BoundedQueue<std::variant<Report, SlotsReport>> orders_{1};
  std::jthread thread_;
};

}  // namespace dp::worker
