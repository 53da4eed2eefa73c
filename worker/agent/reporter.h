#pragma once

#include <optional>
#include <thread>
#include <variant>

#include "base/bounded_queue.h"
#include "client/connection.h"
#include "worker/agent/events.h"
#include "worker/agent/missing_torch.h"

namespace dp::worker {

// Carries one report at a time to the coordinator, from a thread of its own, and tells how it went.
// The thread may block in file systems that do not answer: then no report leaves, and the daemon
// keeps its lease and its ranks. Trying again is the agent's decision. Its owner ends the calls
// under way on `connection` before destroying it.
class Reporter {
 public:
  struct Report {
    RankKey key;
    Milestone milestone = Milestone::kNone;
    v1::ReportRankRequest request;
    // The program of a rank that found no PyTorch, for a last line that names its Python.
    std::optional<TorchlessProgram> lacks_torch = {};
  };

  // Of all slots of this worker.
  struct SlotsReport {
    v1::ReportSlotsRequest request;
  };

  Reporter(client::WorkersConnection& connection, Events& events);
  ~Reporter();

  // The one before must have been answered. Any thread.
  void Send(std::variant<Report, SlotsReport> report);

 private:
  void Loop();
  void Carry(const Report& report);
  void Carry(const SlotsReport& report);

  client::WorkersConnection& connection_;
  Events& events_;
  BoundedQueue<std::variant<Report, SlotsReport>> orders_{1};
  std::jthread thread_;
};

}  // namespace dp::worker
