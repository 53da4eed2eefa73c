#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/program/notify_socket.h"
#include "server/core/command.h"
#include "server/core/coordinator.h"
#include "server/core/outcome.h"
#include "server/driver/disk_limits.h"
#include "server/driver/element_offers.h"
#include "server/driver/heartbeats.h"
#include "server/driver/journal.h"
#include "server/driver/waiters.h"
#include "server/policy/late_ranks.h"
#include "server/policy/liveness.h"
#include "server/policy/placement.h"
#include "server/policy/verdicts.h"

namespace dp::server {

// The state that an answer may read while it runs, on the driver's thread.
struct View {
  const core::Coordinator& coordinator;
  const core::Liveness& liveness;
  // The jobs that wait for slots, as of the last placement.
  const std::map<JobId, core::Waiting>& waiting;
  // As the writer of the logs last reported (Driver::TellLogs).
  const std::map<JobId, uint64_t>& log_versions;
  const Waiters& waiters;  // the calls that are parked
  absl::Time now;
  Waiters::Changed changed = {};  // what woke the question
  absl::Status failure = {};      // why the driver ends; OK while it runs, and after Stop
};

// Asked on the driver's thread right before a command or heartbeat counts. An error rejects it.
// Null: always OK.
using Permit = std::function<absl::Status(const View&)>;

// The originator of a command, and whether they may give it.
struct Submitter {
  std::string actor = {};  // as core::Command has it
  Permit permit = {};
};

// Owns the Coordinator and the one thread that touches it. The thread drains a bounded queue,
// applies every command and journals the batch with one sync. Then it answers, and then it wakes
// the parked calls: nobody sees what a crash could undo (docs/coordinator-process.md). If the
// journal fails, the driver ends, and every later call is Unavailable.
//
// Methods are thread-safe and, except Stop, never block. If the queue is full or the driver has
// ended, they return Unavailable and never call `done`. Else they call `done` exactly once, on the
// driver's thread; it must not block. With an Unavailable error, `done` must not use the view.
class Driver {
 public:
  struct Options {
    absl::Duration lease = absl::Seconds(5);
    core::PlacementPolicy placement;
    // Whether the job's store could be served at the port; null: always. On the driver's thread.
    std::function<bool(const core::Job&, int port)> store_port_usable = {};
    // Queued calls: three for each of 10,000 ranks, which come all at once when a world forms. A
    // caller waits; only calls beyond this number are rejected. gRPC holds about 10 kB per call.
    size_t queue_capacity = 32'768;
    // Calls in a batch. A call that arrives while a batch is served waits for no more than these.
    size_t batch_max = 2048;
    // Bytes of the actions that are queued or being written, which also bounds a
    // transaction. A single action may be larger.
    size_t queue_bytes_max = size_t{256} << 20;
    Waiters::Capacity waiting_capacity;  // calls that wait for a change
    KeyValueLimits store_limits;         // of each job's store
    SnapshotPolicy snapshots;
    DiskLimits disk;
    // Bytes that may still be written on the journal's disk. Null: unlimited.
    std::function<uint64_t()> disk_available = {};
    // Called every few seconds, after the answers, for the owner of the ballast. Null: no ballast.
    std::function<void()> tend_disk = {};
    // Receives jobs that are durably off the record, on the driver's thread, and must not block.
    // Returns false if it cannot take the jobs now; they come again with the next batch. A crash
    // may come in between, so a start passes on the jobs of `logged` that are not on record.
    std::function<bool(const std::vector<JobId>&)> on_forgotten = {};
    std::vector<JobId> logged = {};  // jobs that have logs
    // Moves away the logs of jobs that the journal has lost, after a user accepted the loss. Null:
    // such logs are an error. Called by Start.
    std::function<absl::Status(const std::vector<JobId>&)> set_logs_aside = {};
    // Notified that the loop still runs. Not owned; outlives the driver. Null: nobody watches.
    NotifySocket* notify = nullptr;
  };
  // How long the policies may delay a look that is due soon (core::Look). Short beside the seconds
  // that they count in, and long beside the batches of a large world's joins.
  static constexpr absl::Duration kLookSoon = absl::Milliseconds(250);

  using OnOutcome = std::function<void(const core::Outcome&, const View&)>;
  using OnAnswer = std::function<void(const absl::Status&, const View&)>;
  // Answers the call and returns true. If woken by kChanged, may return false to keep waiting.
  using Question = std::function<bool(Waiters::Wake, const View&)>;
  // Called once, last thing on the thread: with OK after Stop, else with the failure.
  using OnEnd = std::function<void(const absl::Status&)>;

  // Replays the journal, starts an epoch and the thread. Journal and clock must outlive the driver.
  // Errors: those of the journal; DataLoss this release rejects a record, or the journal has lost
  // its end; FailedPrecondition a new journal beside logs.
  static absl::StatusOr<std::unique_ptr<Driver>> Start(const Options& options, Journal& journal,
                                                       const Clock& clock, OnEnd on_end);
  ~Driver();

  // Applies a command, stamped with the time at which the driver takes it.
  absl::Status Submit(core::Action action, OnOutcome done, Submitter submitter = {});
  // Answers from the state between two batches.
  absl::Status Ask(OnAnswer done);
  // Extends a lease at once, on the caller's thread, without waiting. nullopt: call Hear instead.
  // `lease_number` names the lease that the daemon knows of (core::Liveness); `name` is the one
  // that it has proven, empty if it need not prove one.
  std::optional<Heartbeats::Renewal> Renew(WorkerId worker, Incarnation incarnation,
                                           uint64_t lease_number = 0, std::string name = "");
  // Extends a lease through the queue. Answers with the status of Coordinator::CheckWorker.
  absl::Status Hear(WorkerId worker, Incarnation incarnation, OnAnswer done,
                    uint64_t lease_number = 0, Permit permit = {});
  // Wakes the waits for logs of the job, whose version is now `version`; then answers.
  absl::Status TellLogs(JobId job, uint64_t version, OnAnswer done);
  const core::PlacementPolicy& placement() const { return options_.placement; }

  // Asks `question` at once, when one of the topics changes, and after `timeout`. `ticket`, from
  // NewTicket, names the wait for Cancel; `blocked` describes the wait to users.
  absl::Status Wait(Waiters::Ticket ticket, std::vector<core::Topic> topics, absl::Duration timeout,
                    Question question, std::optional<BlockedCall> blocked = {});
  // Ends waits with kCancelled soon, even while the queue is full.
  void Cancel(std::vector<Waiters::Ticket> tickets) DP_EXCLUDES(mu_);
  void Cancel(Waiters::Ticket ticket) { Cancel(std::vector{ticket}); }
  Waiters::Ticket NewTicket() { return ++last_ticket_; }

  // Answers what is queued, ends all waits with kStopping and returns when the thread has ended.
  // Idempotent; not from the driver's thread.
  void Stop();

  // The answer of an ended driver to every call. `failure` says why it ended; OK after Stop.
  static absl::Status Ended(const absl::Status& failure = {});

 private:
  struct CommandItem {
    core::Action action;
    OnOutcome done;
    core::Outcome outcome;
    size_t bytes = 0;  // of the action
    Submitter submitter;
  };
  struct AskItem {
    OnAnswer done;
  };
  struct HearItem {
    WorkerId worker;
    Incarnation incarnation;
    uint64_t lease_number = 0;
    OnAnswer done;
    Permit permit;
    absl::Status permitted;
  };
  struct LogsItem {
    JobId job;
    uint64_t version = 0;
    OnAnswer done;
  };
  struct WaitItem {
    Waiters::Ticket ticket = 0;
    std::vector<core::Topic> topics;
    absl::Duration timeout;
    Question question;
    std::optional<BlockedCall> blocked;
  };
  // Wakes the thread for the tickets in cancelled_.
  struct CancelItem {};
  using Item = std::variant<CommandItem, AskItem, HearItem, LogsItem, WaitItem, CancelItem>;

  Driver(const Options& options, Journal& journal, const Clock& clock, OnEnd on_end);

  // The answer to a command that may be on the disk, whatever the disk has reported.
  static absl::Status NotKnown(const absl::Status& failure);
  static size_t BytesIn(const std::vector<Item>& items);

  absl::Status Push(Item item) DP_EXCLUDES(mu_);
  absl::Status Recover();
  void CatchUpWithTheJournal();
  absl::Status CheckLogsAreOurs() const;
  absl::Status SetLostLogsAside();
  absl::Time Now() const;
  void Run();
  // Serves one batch in the order of the class comment; cancelled waits come last.
  void Serve(std::vector<Item>& items);
  void Take(Item& item);
  void Welcome(WorkerId worker, Incarnation incarnation);
  // Applies the verdict, unless the worker has been heard of since. Returns true if applied.
  bool Lose(core::LoseWorker verdict);
  // Whether the disk has room for the action. May forget terminal jobs. Errors: ResourceExhausted,
  // and those of the submission.
  absl::Status Admit(const core::Action& action);
  absl::Status AdmitJob(const core::SubmitJob& submit);
  // Forgets terminal jobs, in the order in which they ended, until all specs hold at most so many
  // bytes. Keeps the jobs that the submission waits for.
  void ForgetDownTo(uint64_t spec_bytes, const core::SubmitJob& submit);
  // Bytes that may still be written. Those in the journal's own file count only if the disk has
  // less than `enough`. Precondition: options_.disk_available.
  uint64_t Room(uint64_t enough);
  void NoteSilent(core::AccusePeers& accusation) const;
  core::Outcome Apply(core::Action action, std::string actor = "");
  void ApplyVerdicts();
  void ApplyPolicies();
  // Journals the batch, then publishes what is durable to heartbeats_.
  absl::Status Persist();
  // Work that no call waits for: snapshots, and the rest of the journal's upkeep.
  absl::Status MaintainJournal();
  bool SnapshotDue();
  void Fail(absl::Status failure) DP_EXCLUDES(mu_);
  // Drops what the driver keeps of forgotten jobs, and passes the jobs to on_forgotten.
  void TellForgotten();
  void Answer(Item& item);
  // Begins the item's wait.
  void Attend(Item& item);
  std::vector<Waiters::Ticket> TakeCancelled() DP_EXCLUDES(mu_);
  void OfferElements();
  void AnswerAllEnded(std::vector<Item>& items);
  absl::Duration UntilNextWake() const;
  View MakeView() const;

  const Options options_;
  core::PlacementPolicy policy_;
  Journal& journal_;
  const Clock& clock_;
  // How far the clock was behind the journal's end at the start. Time goes on from the journal's
  // end. If time waited for the clock to catch up, nothing would be late meanwhile.
  absl::Duration behind_;
  const OnEnd on_end_;
  Heartbeats heartbeats_;  // gRPC's threads write to it
  std::atomic<Waiters::Ticket> last_ticket_ = 0;
  BoundedQueue<Item> queue_;
  std::atomic<size_t> queued_bytes_ = 0;  // of the queue, and of the batch that is being served
  Mutex mu_;
  // Outside the queue, so that no ticket is lost if the queue is full. At most one per wait.
  std::vector<Waiters::Ticket> cancelled_ DP_GUARDED_BY(mu_);
  // failure_, for the calling threads. Set before a failure closes the queue.
  absl::Status told_failure_ DP_GUARDED_BY(mu_);

  // Owned by the thread once it runs.
  core::Coordinator coordinator_;
  core::Liveness liveness_;
  core::LateRanks late_ranks_;
  Waiters waiters_;
  CancelledWaits cancelled_waits_;
  ElementOffers offers_;
  std::map<JobId, core::Waiting> waiting_;
  std::map<JobId, uint64_t> log_versions_;
  absl::Time plan_again_at_ = absl::InfinitePast();
  core::Look look_ = core::Look::kNever;  // of this batch, so far
  bool publish_ = true;                   // workers or leases may have changed in this batch
  absl::Time tend_disk_at_ = absl::InfinitePast();
  std::optional<uint64_t> available_;    // on the disk; reset by each batch and write
  bool forgot_for_room_ = false;         // and no snapshot has begun since
  bool snapshot_postponed_ = false;      // for lack of room, and it was logged
  absl::Time now_;                       // never goes back
  std::vector<core::Command> unsynced_;  // applied in this batch, not yet journalled
  uint64_t unsynced_bytes_ = 0;          // of their actions
  std::vector<core::Topic> changed_;     // in this batch
  std::vector<JobId> forgotten_;         // not yet passed to on_forgotten
  absl::Status failure_;

  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace dp::server
