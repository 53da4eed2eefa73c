#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "base/dependency.h"
#include "base/id.h"
#include "base/labels.h"
#include "base/rank.h"
#include "base/store/key_values.h"
#include "base/store/operation.h"
#include "server/core/failure_class.h"

// What the coordinator can be told. A command is a decision that was already taken, with its time:
// the journal is the list of them, and replay applies the same list again. Plain structs, no
// protobuf; the shell converts. docs/coordinator.md says when each is refused.

namespace dp::core {

// How often a job gets another generation, by what ended the one before. The machine keeps it; the
// policy (retry_policy.h) reads it.
struct RestartLimits {
  int user = 0;    // over the job's whole life; a rank that cannot be started counts too
  int infra = 10;  // within `window`, as are the next two
  int hang = 3;
  std::optional<int> oom;  // absent: `user` counts these
  int startup = 3;         // generations in a row without a first step, whatever ended them
  absl::Duration window = absl::Hours(1);
  // Of a rank, 128 + N for signal N.
  std::vector<int> never_exit_codes = {};
  std::vector<int> always_exit_codes =
      {};  // retried without being counted, unless among the others

  bool operator==(const RestartLimits&) const = default;
};

// Which slots of a worker a job takes: those that have a GPU, those that have none, or either.
enum class SlotKind {
  kAny,
  kGpu,
  kCpu,
  kTrainingGpu,  // have a GPU, and the worker's trainer can use it
};

// What a job says of when and where it may run (docs/scheduling.md).
struct Scheduling {
  std::string queue = "default";
  int priority = 0;  // higher goes first
  bool hold = false;
  std::vector<Dependency> after = {};
  bool singleton = false;
  absl::Duration max_duration = absl::InfiniteDuration();      // of holding slots
  absl::Duration ttl_after_finish = absl::InfiniteDuration();  // then it is forgotten
  SlotKind slots = SlotKind::kAny;
  std::vector<LabelConstraint> constraints = {};
  bool preemptible = false;  // leaves its slots to jobs of higher priority
  // An elastic job that has run for so long comes back larger where it can; infinite: never.
  absl::Duration grow_after = absl::InfiniteDuration();

  bool operator==(const Scheduling&) const = default;
};

// What the machine needs to know of a job; the rest of the spec is opaque to it.
struct JobSpec {
  std::string name;
  int ranks = 1;
  std::string payload;      // the serialized dp.v1.JobSpec, handed to workers and ranks unread
  bool store_port = false;  // its TCPStore endpoint needs a port
  int nodes = 0;            // workers that take `ranks / nodes` each; 0: as few workers as will do
  // Its ranks know nothing of worlds: each counts as joined once its process runs.
  bool joins_by_running = false;
  // After a failure a command decides whether it gets another generation. Absent: it never does, as
  // in journals of releases without restarts.
  std::optional<RestartLimits> restart = {};
  // With `nodes`, which it is not below: as many workers as this where they are free, each with
  // `ranks / nodes` ranks; 0: `nodes` of them.
  int nodes_max = 0;
  Scheduling scheduling = {};
  // How long its ranks may take to save and leave, once they are asked to. The value here is that
  // of a journal record without a grace, and stays: it was the default when those were written.
  absl::Duration grace = absl::Seconds(10);
  bool saves = false;  // its ranks have something to save then
  // Once the processes of all its ranks run, so soon the last of them has joined. Infinite for
  // those that join by running, and in journals of releases that did not look.
  absl::Duration join_within = absl::InfiniteDuration();
  // Its ranks train on GPUs where all of them are placed on slots that have one to train on.
  bool gpu_training = false;
  // How soon the death of a host is to be noticed; infinite in journals of releases that had one
  // lease for all.
  absl::Duration detect_within = absl::InfiniteDuration();

  int ranks_per_node() const { return nodes > 0 ? ranks / nodes : ranks; }
  int ranks_max() const { return nodes_max > nodes ? nodes_max * ranks_per_node() : ranks; }
  bool operator==(const JobSpec&) const = default;
};

using dp::Exit;
using dp::RankKey;

// What a store keeps of its last answer to each client, for when it is asked again.
enum class KeptAnswers {
  kWhole,    // all of it, whatever it has: as journals of earlier releases were written
  kBounded,  // of reads little, and of what was applied as one no more than a message takes
};

// The coordinator process has started; replay ends here and a new epoch begins.
struct StartEpoch {
  // 1 counted: an epoch was the one before and one. Since 2 an epoch and its revisions are at least
  // the microseconds since 1970 at its start. So neither number is given twice when the state is an
  // older copy, or has lost its end: whoever has one from before can tell.
  static constexpr uint32_t kVersion = 2;

  // Of each store, from now on. A decision like others: a batch may have been refused in part.
  KeyValueLimits store_limits = {};
  KeptAnswers kept_answers = KeptAnswers::kBounded;  // likewise
  uint32_t version = kVersion;
};

struct SubmitJob {
  std::string request_id;  // repeated: answers the job that the first one made
  JobSpec spec;
  std::string user = {};
};

struct CancelJob {
  JobId job;
};

// A pending job is not placed until it is released.
struct HoldJob {
  JobId job;
};

struct ReleaseJob {
  JobId job;
};

struct PrioritizeJob {
  JobId job;
  int priority = 0;
};

// Ends a generation of a job, and queues it again.
struct RequeueJob {
  JobId job;
  Generation generation;  // a later one is left alone; not valid before the first placement
  // Why it has to leave; it keeps its place in the queue then. Empty: somebody wants it behind the
  // others of its priority.
  std::string reason = {};
  // The pending job of higher priority that takes its slots, where one does.
  JobId preempted_by = {};
};

// The job's deadline has passed.
struct ExpireJob {
  JobId job;
};

// A job that is over has been on record for long enough.
struct ForgetJob {
  JobId job;
};

// Gives every rank of a pending job its worker and slot. `slots[r]` is rank r's.
struct PlaceJob {
  struct Slot {
    WorkerId worker;
    int slot = 0;
    auto operator<=>(const Slot&) const = default;
  };
  JobId job;
  std::vector<Slot> slots;
  int store_port = 0;  // for a job that needs one
};

struct RegisterWorker {
  std::string name;  // empty: the machine chooses one after `host`
  std::string host;
  std::string address;
  Incarnation incarnation;
  int slots = 0;
  std::vector<int> ports = {};  // by slot: kept free on the host for the slot's rank; may be empty
  int gpus = 0;                 // its first slots have one each, or more
  Labels labels = {};
  std::string interface = {};  // that has `address`
  std::string process_tracking = {};
  bool trains_on_gpus = false;  // its trainer can use them
  // Earlier lives that the daemon has proven dead. PredecessorsOf makes a LoseWorker of each; this
  // command itself ignores them, and the journal does not keep them.
  std::vector<Incarnation> replaces = {};
};

// Liveness has given up on one life of a worker.
struct LoseWorker {
  WorkerId worker;
  Incarnation incarnation;
  std::string reason;
};

// A worker's daemon is shutting down: its ranks may end in peace, it gets no new ones.
struct LeaveWorker {
  WorkerId worker;
  Incarnation incarnation;
};

// A daemon says which of its slots ranks cannot use, all of them.
struct ReportSlots {
  WorkerId worker;
  Incarnation incarnation;
  uint64_t number = 0;                   // of this life's reports, from 1: older ones come late
  std::map<int, std::string> unhealthy;  // slot -> why
};

// Somebody wants the worker of this name empty: it gets no new ranks, in this life or a later one.
struct DrainWorker {
  std::string worker;
  std::string reason;
  bool hand_over = false;  // its ranks are to go on elsewhere
};

struct UndrainWorker {
  std::string worker;
  std::string reason = {};  // the drain ends only if it has this one; empty: any
};

struct ReportRank {
  enum class What { kStarted, kExited, kReleased };
  // 1 took exit code 0 of a program that its worker ended for the end of its work, and blamed a
  // rank that failed while the worker of another was shutting down. 2 does neither.
  static constexpr uint32_t kVersion = 2;

  WorkerId worker;
  Incarnation incarnation;
  RankKey rank;
  What what = What::kStarted;
  int64_t pid = 0;                      // with kStarted
  Exit exit;                            // with kExited
  std::string error;                    // with kExited: why there was no process at all
  std::vector<std::string> last_lines;  // with kExited
  bool stopped = false;                 // with kExited: its worker ended it, or never began it
  std::string stop_reason = {};         // with `stopped`; empty: it was shutting down
  bool oom = false;                     // with kExited: the kernel killed it for want of memory
  // Another time than the job's: the report is about another job of that number, and refused.
  // Absent: not checked. The journal, which has only what was accepted, does not keep it.
  std::optional<absl::Time> job_submitted_at = {};
  uint32_t version = kVersion;
};

// Gives a job that has failed, and of which no rank is left, another generation: it is pending
// again.
struct RetryJob {
  JobId job;
  Generation generation;                   // that failed
  absl::Time not_before;                   // the next one is placed no earlier
  std::optional<FailureClass> counted_as;  // whose budget pays; absent: none does
};

// Ends such a job instead.
struct FinishJob {
  JobId job;
  Generation generation;
  std::string reason;  // why there is no other generation
};

struct JoinWorld {
  RankKey rank;
  bool tells_first_step = false;  // a CompleteFirstStep of this rank will follow
};

// The ranks of a generation have done a step together, or have found that none is left to do.
struct CompleteFirstStep {
  RankKey rank;  // who says so, once a generation
};

// One batch on the store of a generation: atomic, or, with `groups`, of groups each of which is.
struct StoreBatch {
  JobId job;
  Generation generation;
  uint64_t client = 0;    // with `sequence`: makes a retry harmless
  uint64_t sequence = 0;  // counts the client's batches from 1; both 0 in a batch that only reads
  std::vector<StoreOperation> operations;
  // How many operations each group has, in order. Such a batch is a relay's: it must follow the
  // relay's last one, whose answer is dropped.
  std::vector<uint32_t> groups = {};
};

// A rank whose collective has failed because of its peers, and that no longer takes part.
struct AccusePeers {
  RankKey rank;
  std::vector<int> missing;  // the peers that it waited for until its deadline, if any
  std::string error;         // of its collective
  bool insist = false;       // the others have had time to speak up: decide
  // Those of `missing` whose workers are silent, too: not they hang, but their hosts are gone.
  std::vector<int> silent = {};
};

// A rank's process runs, and has not joined for longer than its job allows.
struct GiveUpRank {
  RankKey rank;
  std::string reason;
};

// A checkpoint is whole on disk: the job's latest from now on.
struct RegisterCheckpoint {
  RankKey rank;
  int64_t step = 0;    // optimizer steps done
  std::string path;    // its directory
  std::string sha256;  // of its manifest, in hex
  int64_t bytes = 0;
  int keep = 1;  // how many stay on record
};

// The file of the final weights is about to be put in its place.
struct RegisterWeights {
  RankKey rank;
  std::string path;
  std::string sha256;  // in hex
  int64_t bytes = 0;
};

// What follows when the ranks of a generation have saved and left.
enum class HandoverCause {
  kMove,      // the job goes on elsewhere
  kDeadline,  // its time is up: it fails
  kPreempt,   // a job of higher priority takes its slots; it waits for others
  kGrow,      // it goes on with more ranks
};

// The ranks of the job's generation are to save a checkpoint together, and to leave.
struct AskHandover {
  // 1 said of ranks that left, where the job saves, that they have saved; whether they could was
  // not known. 2 says which checkpoint is on record.
  static constexpr uint32_t kVersion = 2;

  JobId job;
  std::string reason;
  HandoverCause cause = HandoverCause::kMove;
  JobId preempted_by = {};                       // with kPreempt
  absl::Time leave_by = absl::InfiniteFuture();  // then they are to be stopped
  uint32_t version = kVersion;
};

using Action = std::variant<StartEpoch, SubmitJob, CancelJob, PlaceJob, RegisterWorker, LoseWorker,
                            LeaveWorker, ReportRank, JoinWorld, AccusePeers, StoreBatch,
                            RegisterCheckpoint, RegisterWeights, AskHandover, RetryJob, FinishJob,
                            HoldJob, ReleaseJob, PrioritizeJob, RequeueJob, ExpireJob, ForgetJob,
                            DrainWorker, UndrainWorker, GiveUpRank, ReportSlots, CompleteFirstStep>;

struct Command {
  absl::Time at;  // when the decision was taken
  Action action;
};

}  // namespace dp::core
