#pragma once

#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/bounded_queue.h"
#include "base/check.h"
#include "base/id.h"
#include "dp/v1/workers.pb.h"
#include "worker/agent/accounts/account.h"
#include "worker/agent/processes/process_runner.h"
#include "worker/agent/spool/log_shipper.h"
#include "worker/core/gpu_health.h"
#include "worker/core/rank.h"
#include "worker/core/session.h"
#include "worker/core/slot_devices.h"

// The messages of the agent's threads to its owner thread.

namespace dp::worker {

struct Registered {
  Session session;
  std::string name;
  std::string address;  // as registered
};
// The coordinator answered a heartbeat.
struct CoordinatorAnswered {};
// The coordinator will not evict this worker before then, by this host's clock.
struct LeaseHeld {
  absl::Time until;
};
// The coordinator did not answer a registration or a heartbeat.
struct CoordinatorSilent {};
// The coordinator has evicted this incarnation.
struct LeaseLost {
  Incarnation incarnation;
  absl::Status reason;
};
// The shutdown notice was delivered, its first attempt failed, or there was no lease to send it
// with.
struct LeaveTold {};
// The coordinator will never accept this worker as it is.
struct RegistrationRefused {
  absl::Status reason;
};
struct AssignmentChanged {
  Incarnation incarnation;
  v1::Assignment assignment;
};
struct ReportAnswered {
  RankKey key;
  uint64_t process = 0;  // Process::number
  Milestone milestone = Milestone::kNone;
  absl::Status status;
};
// The coordinator's answer to the latest ReportSlots.
struct SlotsAnswered {
  absl::Status status;
};
// A driver's answer about memory in use.
struct DeviceMemoryRead {
  DeviceMemory memory;
};
// The latest readings of all GPUs.
struct GpusRead {
  std::vector<GpuReading> gpus;
};
// The coordinator reports the end of a generation to the worker that serves its store.
struct GenerationOver {
  JobId job;
  Generation generation;
};
// The answer to a question of RankAccounts.
struct AccountFound {
  std::string name;
  absl::StatusOr<Account> account;
};
// The first one stops the ranks with their grace; the second kills them at once.
struct ShutdownWanted {};

using Message = std::variant<Registered, CoordinatorAnswered, CoordinatorSilent, LeaseHeld,
                             LeaseLost, LeaveTold, RegistrationRefused, AssignmentChanged,
                             ReportAnswered, SlotsAnswered, DeviceMemoryRead, GpusRead, ProcessNews,
                             LogsNews, GenerationOver, AccountFound, ShutdownWanted>;

// The owner thread's mailbox. The owner never blocks for long, and each sender has few messages in
// flight, so a full mailbox is a bug. After Close, Tell is a no-op.
class Mailbox {
 public:
  void Tell(Message message) {
    const bool told = queue_.TryPush(message);
    DP_CHECK(told || queue_.closed());
  }
  std::vector<Message> DrainFor(absl::Duration timeout) { return queue_.DrainFor(timeout); }
  void Close() { queue_.Close(); }

 private:
  BoundedQueue<Message> queue_{1 << 16};
};

}  // namespace dp::worker
