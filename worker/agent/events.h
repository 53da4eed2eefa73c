#pragma once

#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/bounded_queue.h"
#include "base/check.h"
#include "base/id.h"
#include "dp/v1/workers.pb.h"
#include "worker/agent/log_shipper.h"
#include "worker/agent/process_runner.h"
#include "worker/agent/session.h"
#include "worker/core/gpu_health.h"
#include "worker/core/rank.h"
#include "worker/core/slot_devices.h"

// What the agent's threads tell its owner thread.

namespace dp::worker {

struct Registered {
  Session session;
  std::string name;
  std::string address;  // as registered
};
// The coordinator answered a heartbeat; or did not.
struct CoordinatorAnswered {};
// It will not give the lease up before then, as seen from here.
struct LeaseHeld {
  absl::Time until;
};
struct CoordinatorSilent {};
// The coordinator has given this incarnation up.
struct LeaseLost {
  Incarnation incarnation;
  absl::Status reason;
};
// It has been told that the daemon is shutting down, or could not be told at once.
struct LeaveTold {};
// The coordinator will never take this worker as it is.
struct RegistrationRefused {
  absl::Status reason;
};
struct AssignmentChanged {
  Incarnation incarnation;
  v1::Assignment assignment;
};
struct ReportAnswered {
  RankKey key;
  Milestone milestone = Milestone::kNone;
  absl::Status status;
};
// So it was, or was not, with the latest ReportSlots.
struct SlotsAnswered {
  absl::Status status;
};
// A driver has answered.
struct DeviceMemoryRead {
  DeviceMemory memory;
};
// Likewise; of all GPUs.
struct GpusRead {
  std::vector<GpuReading> gpus;
};
// The coordinator says so to whom serves its store.
struct GenerationOver {
  JobId job;
  Generation generation;
};
// End with grace; asked again, end at once.
struct ShutdownWanted {};

using Event =
    std::variant<Registered, CoordinatorAnswered, CoordinatorSilent, LeaseHeld, LeaseLost,
                 LeaveTold, RegistrationRefused, AssignmentChanged, ReportAnswered, SlotsAnswered,
                 DeviceMemoryRead, GpusRead, ProcessNews, LogsNews, GenerationOver, ShutdownWanted>;

// The owner thread's mailbox. It never blocks for long, and every sender has few events under way,
// so a full one is a bug of ours. After Close, what is told is dropped.
class Events {
 public:
  void Tell(Event event) {
    const bool told = queue_.TryPush(event);
    DP_CHECK(told || queue_.closed());
  }
  std::vector<Event> DrainFor(absl::Duration timeout) { return queue_.DrainFor(timeout); }
  void Close() { queue_.Close(); }

 private:
  BoundedQueue<Event> queue_{1 << 16};
};

}  // namespace dp::worker
