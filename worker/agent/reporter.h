#pragma once

#include <cstdint>
#include <optional>
#include <thread>
#include <variant>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/backoff.h"
#include "base/bounded_queue.h"
#include "base/program/repeated_reason.h"
#include "client/connection.h"
#include "dp/v1/workers.pb.h"
#include "worker/agent/launch/missing_torch.h"
#include "worker/agent/mailbox.h"

namespace dp::worker {

// Decides when a report may leave. Reports go one at a time, so that the coordinator hears of the
// first failure first. After one that was not taken there is a pause. Not thread-safe; time is an
// argument.
class ReportTurn {
 public:
  explicit ReportTurn(uint64_t seed);

  // InfiniteFuture: while a report is under way.
  absl::Time next_at() const { return under_way_ ? absl::InfiniteFuture() : again_at_; }
  void Begin() { under_way_ = true; }
  // Records the answer. Returns false if the report must be sent again.
  bool Done(const absl::Status& answer, absl::Time now);

 private:
  bool under_way_ = false;
  absl::Time again_at_ = absl::InfinitePast();
  Backoff backoff_;
  RepeatedReason trouble_{"report_not_taken"};
};

// Sends one report at a time to the coordinator, from its own thread, and posts the answer to
// `mailbox`. A file system that does not answer may block the thread. No report leaves then, but
// the daemon keeps its lease and its ranks. The agent decides on retries. The owner cancels the
// calls in flight on `connection` before it destroys the reporter.
class Reporter {
 public:
  struct Report {
    RankKey key;
    uint64_t process = 0;  // Process::number
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

  Reporter(client::Connection& connection, Mailbox& mailbox);
  ~Reporter();

  // The previous report must have been answered. Any thread.
  void Send(std::variant<Report, SlotsReport> report);

 private:
  void Loop();
  void Carry(const Report& report);
  void Carry(const SlotsReport& report);

  client::Connection& connection_;
  Mailbox& mailbox_;
  BoundedQueue<std::variant<Report, SlotsReport>> orders_{1};
  std::jthread thread_;
};

}  // namespace dp::worker
