#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/labels.h"
#include "base/notify_socket.h"
#include "client/connection.h"
#include "worker/agent/assignment_watch.h"
#include "worker/agent/events.h"
#include "worker/agent/gpu_reader.h"
#include "worker/agent/incarnation_record.h"
#include "worker/agent/lease.h"
#include "worker/agent/listener_probe.h"
#include "worker/agent/log_shipper.h"
#include "worker/agent/process_runner.h"
#include "worker/agent/rank_command.h"
#include "worker/agent/reporter.h"
#include "worker/agent/slot_return.h"
#include "worker/agent/store_endpoints.h"
#include "worker/core/supervisor.h"

namespace dp::worker {

struct AgentOptions {
  std::string name;       // empty: the coordinator chooses
  std::string host_name;  // for people
  int slots = 1;
  std::vector<int> ports = {};  // by slot, kept free for its rank's program
  Labels labels = {};
  std::string state_dir;
  uint64_t spool_bytes_max = kSpoolBytesMax;  // of what ranks have written
  size_t left_overs_max = kLeftOversMax;
  RankHost rank_host;  // `worker` and `address` are filled in by the registration
  // The address of this host for peers; asked before each registration, since the network may be
  // late.
  std::function<absl::StatusOr<std::string>()> address;
  // Called once, with the name, when the worker is registered for the first time.
  std::function<void(const std::string&)> on_registered;
  // The owner's; outlives the agent, which tells it GenerationOver. Null: no store is served here.
  StoreEndpoints* stores = nullptr;
  // Told of the registration, of the end, and that the loop still turns; likewise.
  NotifySocket* notify = nullptr;
  // Of the coordinator's address; the owner's. Null: whether anybody listens there is never known.
  ListenerProbe* coordinator_probe = nullptr;
  // By slot, the GPUs that its ranks have; empty: none has any.
  std::vector<std::vector<Device>> slot_devices = {};
  // Who knows when they are free; the owner's. Null: they count as free when the processes are
  // gone.
  DeviceMemorySource* device_memory = nullptr;
  SlotDevices::Limits device_limits = {};
  // Who describes the devices of `rank_host.facts`; likewise. Null: nobody.
  GpuReader* gpus = nullptr;
  absl::Duration gpus_read_every = absl::Seconds(10);
  GpuHealthLimits gpu_health = {};
  std::string process_tracking = {};
  // Incarnations that earlier daemons of `state_dir` registered. The caller owns the record. Null:
  // none known.
  IncarnationRecord* incarnations = nullptr;
  // Returns true when every process that those daemons started is gone. Called on the lease's
  // thread. Null: counts as false.
  std::function<bool()> earlier_gone;
  // As CountOomKills. Null: never known.
  std::function<int64_t()> oom_kills;
  uint64_t seed = 0;  // of back-offs and incarnations
};

// The daemon: one thread, the caller of Run, that takes events, asks the supervisor and carries out
// what it decides. Its other threads (lease, assignment watch, reporter, log shipper, runner) only
// do what blocks. After Run has returned, the owner ends the calls under way on the connections,
// then destroys the agent.
class Agent {
 public:
  // All are the owner's and must outlive the agent. `runner` must tell its news to `events`.
  Agent(AgentOptions options, client::WorkersConnection& workers, client::LogsConnection& logs,
        ProcessRunner& runner, Events& events, const Clock& clock);

  // Serves until ShutdownWanted; then stops the ranks and returns OK.
  // Errors: InvalidArgument the coordinator refuses the registration as it is.
  absl::Status Run();

 private:
  // Carries out one decision; returns whether something was done that changes what to decide next.
  bool CarryOut(const Decision& decision);
  // The loop has come round.
  void ShowLife();
  // How long Run may wait for events.
  absl::Duration Patience(const Decision& decision) const;

  void Do(const Start& start);
  void Do(const Decline& decline);
  void Do(const Terminate& terminate);
  void Do(const Kill& kill);
  void Do(const Forget& forget);
  void SendFirstReport(const Decision& decision);
  bool SlotsReportDue() const;
  void SendSlotsReport();

  void On(const Registered& event);
  void On(const CoordinatorAnswered& event);
  void On(const CoordinatorSilent& event);
  void On(const LeaseHeld& event);
  void On(const LeaseLost& event);
  void On(const RegistrationRefused& event);
  void On(const AssignmentChanged& event);
  void On(const ReportAnswered& event);
  void On(const SlotsAnswered& event);
  void On(const DeviceMemoryRead& event);
  void On(const GpusRead& event);
  void On(const ProcessNews& event);
  void On(const LogsNews& event);
  void On(const GenerationOver& event);
  void On(const LeaveTold& event);
  void On(const ShutdownWanted& event);

  void TakeNews(const RankKey& key, const ProcessStarted& news);
  void TakeNews(const RankKey& key, const ProcessNotStarted& news);
  void TakeNews(const RankKey& key, const ProcessExited& news);
  void TakeNews(const RankKey& key, const ProcessGone& news);
  void WriteGpuMetrics(const RankKey& key, const Process& process,
                       const std::vector<GpuReading>& gpus);
  // Nothing is left of the rank.
  void SlotLeft(const RankKey& key);
  // Whether there will be no other try at a report that was answered so.
  bool ReportIsDone(const absl::Status& status);
  // Since it was last asked.
  bool OomKillsGrew();

  void BeginIncarnation();
  std::vector<Incarnation> RecordIncarnation();
  // Called when the mode has nothing left to wait for. Returns whether the daemon is to end.
  bool ModeFinished();
  // Where the ranks of a command meet. Errors: those of StoreEndpoints.
  absl::StatusOr<StoreEndpoint> StoreOf(const v1::AssignedRank& rank);
  absl::StatusOr<RankCommand> CommandOf(const v1::AssignedRank& rank, const LogSpool& spool);
  // Whether a rank of it is known here.
  bool Holds(JobId job, Generation generation) const;
  Reporter::Report RankReport(const Report& report) const;
  LogSpool SpoolOf(const RankKey& key) const { return LogSpool(options_.state_dir, key); }
  // On the lease's thread.
  absl::StatusOr<v1::RegisterRequest> Registration() const;
  // The GPUs as last read, where that is news since `number`, which is brought up to date.
  std::vector<v1::Gpu> GpusSince(uint64_t* number) const;
  // Sends what ranks of an earlier life have left in the spool.
  void FollowLeftOvers();
  // The oldest of them that are more than may wait; they are to go.
  std::vector<RankKey> TakeExcessLeftOvers();
  // No longer follows this spool, and removes it.
  void DropSpool(const RankKey& key);
  // Removes the spools that have served; the next life sends the others.
  void DropShippedSpools();

  const AgentOptions options_;
  ProcessRunner& runner_;
  Events& events_;
  const Clock& clock_;
  int64_t oom_kills_ = 0;

  // What is wanted, and what is known.
  Desired desired_;
  Observed observed_;
  SlotReturn slots_;
  absl::btree_map<RankKey, v1::AssignedRank> assigned_;  // the same ranks as desired_
  // Of ranks that are no longer on record here, but whose logs have not been stored yet. At most
  // left_overs_max; of the oldest jobs first.
  std::set<RankKey> left_over_;
  Session session_;  // incarnation 0: not registered yet
  Incarnation incarnation_;
  uint64_t random_state_;
  RankHost rank_host_;
  std::vector<RankKey>
      found_;  // the spools that were there at the start; set before the lease begins
  std::optional<absl::Status> ending_;  // what Run is to return, once known
  bool leave_under_way_ = false;        // the coordinator is being told of the end

  // The report under way, and when the next may be tried.
  bool report_under_way_ = false;
  absl::Time report_again_at_ = absl::InfinitePast();
  Backoff report_backoff_;
  RepeatedReason report_trouble_{"report_not_taken"};
  RepeatedReason gpu_metrics_trouble_{"gpu_metrics_lost"};

  std::optional<GpuWatch> gpu_watch_;
  Lease lease_;
  AssignmentWatch watch_;
  Reporter reporter_;
  LogShipper shipper_;
};

}  // namespace dp::worker
