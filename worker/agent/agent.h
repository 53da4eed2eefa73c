#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "base/labels.h"
#include "base/program/notify_socket.h"
#include "base/program/repeated_reason.h"
#include "client/connection.h"
#include "worker/agent/assignment_watch.h"
#include "worker/agent/gpus/gpu_reader.h"
#include "worker/agent/incarnation_record.h"
#include "worker/agent/launch/rank_command.h"
#include "worker/agent/lease.h"
#include "worker/agent/left_over_spools.h"
#include "worker/agent/mailbox.h"
#include "worker/agent/processes/process_runner.h"
#include "worker/agent/rank_accounts.h"
#include "worker/agent/reporter.h"
#include "worker/agent/sandbox/private_tmps.h"
#include "worker/agent/slot_return.h"
#include "worker/agent/spool/log_shipper.h"
#include "worker/agent/stores/listener_probe.h"
#include "worker/agent/stores/store_endpoints.h"
#include "worker/core/supervisor.h"

namespace dp::worker {

struct AgentOptions {
  std::string name;       // empty: the coordinator chooses
  std::string host_name;  // for people
  int slots = 1;
  std::vector<int> ports = {};  // by slot, kept free for its rank's program
  Labels labels = {};
  std::string state_dir;
  uint64_t spool_bytes_max = kSpoolBytesMax;            // of output in the spool
  absl::Duration spool_probe_every = absl::Seconds(5);  // while no output can be written
  size_t left_overs_max = kLeftOversMax;
  RankHost rank_host;  // `worker` and `address` are filled in by the registration
  // Returns this host's address for peers. Called before each registration, because the network may
  // come up late.
  std::function<absl::StatusOr<std::string>()> address;
  // Called once, with the name, after the first registration of this worker.
  std::function<void(const std::string&)> on_registered;
  // The caller owns it; it outlives the agent, which reports ended generations to it. Null: this
  // host serves no stores.
  StoreEndpoints* stores = nullptr;
  // The service manager: gets the registration, the shutdown and a pulse of the loop. The caller
  // owns it. Null: none.
  NotifySocket* notify = nullptr;
  // Probes the coordinator's address. The caller owns it. Null: it stays unknown whether anything
  // listens there.
  ListenerProbe* coordinator_probe = nullptr;
  // The GPUs of each slot; empty: no slot has any.
  std::vector<std::vector<Device>> slot_devices = {};
  // Reports the GPUs' memory in use. The caller owns it. Null: a GPU is free when the slot's
  // processes are gone.
  DeviceMemorySource* device_memory = nullptr;
  SlotDevices::Limits device_limits = {};
  // Reads the devices of `rank_host.facts`. The caller owns it. Null: no readings.
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
  // Whom ranks run as. With a policy that changes the user, `ask_account` starts the look-up of an
  // account, whose answer reaches the mailbox as AccountFound.
  RunAs run_as = {};
  std::function<void(const std::string& name)> ask_account;
  // The private /tmp of each generation. The caller owns it. Null: ranks have the host's.
  PrivateTmps* private_tmps = nullptr;
  // As CountOomKills. Null: unknown.
  std::function<int64_t()> oom_kills;
  uint64_t seed = 0;  // of back-offs and incarnations
};

// The daemon. One thread, the caller of Run, takes messages, asks the supervisor and carries out
// its decisions. The other threads (lease, assignment watch, reporter, log shipper, runner) only do
// what blocks. After Run has returned, the owner cancels the calls in flight on the connection,
// then destroys the agent.
class Agent {
 public:
  // The caller owns all arguments; they must outlive the agent. `runner` must report to `mailbox`.
  Agent(AgentOptions options, client::Connection& connection, ProcessRunner& runner,
        Mailbox& mailbox, const Clock& clock);

  // Serves until ShutdownWanted, then stops the ranks and returns OK. Errors: InvalidArgument the
  // coordinator rejects the registration for good.
  absl::Status Run();

 private:
  // Carries out one decision. Returns true if an action was done that changes the next decision.
  bool CarryOut(const Decision& decision);
  // Tells the service manager that the loop turns.
  void ShowLife();
  // How long Run may wait for messages.
  absl::Duration Patience(const Decision& decision) const;

  void Do(const Start& start);
  void Do(const Decline& decline);
  // Declines `rank`, and reports all slots as unfit until ranks' output can be written.
  void DeclineAll(const AssignedRank& rank, const std::string& trouble);
  void ProbeSpool();
  void Do(const Terminate& terminate);
  void Do(const Kill& kill);
  void Do(const Forget& forget);
  void SendFirstReport(const Decision& decision);
  bool SlotsReportDue() const;
  void SendSlotsReport();

  void On(const Registered& message);
  void On(const CoordinatorAnswered& message);
  void On(const CoordinatorSilent& message);
  void On(const LeaseHeld& message);
  void On(const LeaseLost& message);
  void On(const RegistrationRefused& message);
  void On(const AssignmentChanged& message);
  void On(const ReportAnswered& message);
  void On(const SlotsAnswered& message);
  void On(const DeviceMemoryRead& message);
  void On(const GpusRead& message);
  void On(const ProcessNews& message);
  void On(const LogsNews& message);
  void On(const GenerationOver& message);
  void On(const AccountFound& message);
  void On(const LeaveTold& message);
  void On(const ShutdownWanted& message);

  void TakeNews(const RankKey& key, const ProcessStarted& news);
  void TakeNews(const RankKey& key, const ProcessNotStarted& news);
  void TakeNews(const RankKey& key, const ProcessExited& news);
  void TakeNews(const RankKey& key, const ProcessGone& news);
  void WriteGpuMetrics(const RankKey& key, const Process& process,
                       const std::vector<GpuReading>& gpus);
  // Nothing is left of the rank's processes.
  void SlotLeft(const RankKey& key);
  // Whether the count of OOM kills grew since the last call.
  bool OomKillsGrew();

  // No rank is wanted any more: those that run are killed, and not reported.
  void Abandon();
  void BeginIncarnation();
  std::vector<Incarnation> RecordIncarnation();
  // Called when the mode has nothing left to wait for. Returns whether the daemon is to exit.
  bool ModeFinished();
  // Wants the assigned ranks, except those whose account is being looked up.
  void WantAssigned();
  // Where the ranks of a command job meet. Errors: those of StoreEndpoints.
  absl::StatusOr<StoreEndpoint> StoreOf(const v1::AssignedRank& rank,
                                        const std::optional<Account>& run_as);
  // For a rank that may call the coordinator.
  absl::Status WriteRankCredential(const v1::AssignedRank& rank, const LogSpool& spool) const;
  // Errors: those of the disk.
  absl::Status MakeFiles(const v1::AssignedRank& rank, const LogSpool& spool);
  absl::StatusOr<RankCommand> CommandOf(const v1::AssignedRank& rank, const LogSpool& spool);
  // Whether this daemon knows a rank of the generation.
  bool Holds(JobId job, Generation generation) const;
  Reporter::Report RankReport(const Report& report) const;
  LogSpool SpoolOf(const RankKey& key) const { return LogSpool(options_.state_dir, key); }
  // Called on the lease's thread.
  absl::StatusOr<v1::RegisterRequest> Registration() const;
  // The latest readings of the GPUs, if newer than `number`, which is updated. Called on the
  // lease's thread.
  std::vector<v1::Gpu> GpusSince(uint64_t* number) const;
  // Removes the spools whose logs and exits the coordinator has. The next daemon sends the others.
  void DropShippedSpools();

  const AgentOptions options_;
  ProcessRunner& runner_;
  Mailbox& mailbox_;
  const Clock& clock_;
  int64_t oom_kills_ = 0;

  // The desired and the known state.
  Desired desired_;
  Observed observed_;
  SlotReturn slots_;
  absl::Time probe_spool_at_ = absl::InfiniteFuture();  // when to try again; while there is trouble
  absl::btree_map<RankKey, v1::AssignedRank> assigned_;  // those of desired_, and perhaps more
  RankAccounts accounts_;
  LeftOverSpools left_overs_;  // of ranks that have left observed_, or belong to earlier daemons
  Session session_;            // incarnation 0: not registered yet
  Incarnation incarnation_;
  uint64_t random_state_;
  RankHost rank_host_;
  std::optional<absl::Status> ending_;  // Run's result, once known

  ReportTurn report_turn_;
  RepeatedReason gpu_metrics_trouble_{"gpu_metrics_lost"};

  std::optional<GpuWatch> gpu_watch_;
  Lease lease_;
  AssignmentWatch watch_;
  Reporter reporter_;
  LogShipper shipper_;
};

}  // namespace dp::worker
