#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "base/dependency.h"
#include "base/field_list.h"
#include "base/id.h"
#include "base/labels.h"
#include "base/rank.h"
#include "base/security/identity.h"
#include "server/core/failure_class.h"
#include "server/core/job_spec.h"
#include "store/key_values.h"
#include "store/operation.h"

// The commands of the coordinator. A command is a decision that was already taken, with its time.
// The journal is the list of commands, and replay applies the same list again. Plain structs, no
// protobuf; server/journal converts them. docs/coordinator.md says when each command is rejected.

namespace dp::core {

using dp::Exit;
using dp::RankKey;

// How much of its last answer to each client a store keeps, to answer a repeated batch.
enum class KeptAnswers {
  kWhole,    // all of it, whatever its size: as in journals of earlier releases
  kBounded,  // little of reads, and of a batch without groups no more than a message holds
};

// The coordinator process has started. Replay ends here and a new epoch begins.
struct StartEpoch {
  // Version 1 incremented the epoch. Since version 2 the epoch and its revisions are at least the
  // microseconds since 1970 at the start. A state that is an older copy, or has lost its end,
  // therefore never reuses either number, and whoever holds one from before notices.
  static constexpr uint32_t kVersion = 2;

  // The limits of each store from now on. Journalled, since a batch may have been rejected in part.
  KeyValueLimits store_limits = {};
  KeptAnswers kept_answers = KeptAnswers::kBounded;  // likewise
  uint32_t version = kVersion;

  using Fields =
      FieldList<&StartEpoch::store_limits, &StartEpoch::kept_answers, &StartEpoch::version>;
};

struct SubmitJob {
  std::string request_id;  // a repeated id returns the job that the first command made
  JobSpec spec;
  std::string user = {};
  // The user who may change the job, and has proven to be this one. Empty: nobody has, so only
  // administrators may.
  std::string owner = {};
  std::vector<SealedSecret> secrets = {};  // for this request id, which is a part of each seal

  using Fields = FieldList<&SubmitJob::request_id, &SubmitJob::spec, &SubmitJob::user,
                           &SubmitJob::owner, &SubmitJob::secrets>;

  // Bytes that count towards the limit for specs.
  uint64_t spec_bytes() const { return spec.payload.size() + BytesOf(secrets); }
};

struct CancelJob {
  JobId job;

  using Fields = FieldList<&CancelJob::job>;
};

// A pending job is not placed until it is released.
struct HoldJob {
  JobId job;

  using Fields = FieldList<&HoldJob::job>;
};

struct ReleaseJob {
  JobId job;

  using Fields = FieldList<&ReleaseJob::job>;
};

struct PrioritizeJob {
  JobId job;
  int priority = 0;

  using Fields = FieldList<&PrioritizeJob::job, &PrioritizeJob::priority>;
};

// Ends a generation of a job and queues the job again.
struct RequeueJob {
  JobId job;
  Generation generation;  // no-op for another one; not valid before the first placement
  // Why the job must leave; the job then keeps its place in the queue. Empty: the job goes behind
  // the others of its priority.
  std::string reason = {};
  // The pending job of higher priority that takes the slots, if there is one.
  JobId preempted_by = {};

  using Fields = FieldList<&RequeueJob::job, &RequeueJob::generation, &RequeueJob::reason,
                           &RequeueJob::preempted_by>;
};

// The job's deadline has passed.
struct ExpireJob {
  JobId job;

  using Fields = FieldList<&ExpireJob::job>;
};

// Drops the record of a finished job: its ttl_after_finish has passed, a client asks for it, or the
// spec of another job needs the room. A no-op for a job that was forgotten before.
struct ForgetJob {
  // Version 1 left no event. Since version 2 one stays that says which job it was.
  static constexpr uint32_t kVersion = 2;

  JobId job;
  // Absent: whichever job has the number. Checked before the job is dropped; the journal does not
  // keep it.
  std::optional<absl::Time> submitted_at = {};
  // The user who asks for it; empty if no client does.
  std::string user = {};
  // The client says that it has removed the job's files before.
  bool with_files = false;
  uint32_t version = kVersion;

  using Fields = FieldList<&ForgetJob::job, &ForgetJob::submitted_at, &ForgetJob::user,
                           &ForgetJob::with_files, &ForgetJob::version>;
};

// Gives each rank of a pending job a worker and slot: `slots[r]` is for rank r.
struct PlaceJob {
  struct Slot {
    WorkerId worker;
    int slot = 0;

    using Fields = FieldList<&Slot::worker, &Slot::slot>;

    auto operator<=>(const Slot&) const = default;
  };
  JobId job;
  std::vector<Slot> slots;
  int store_port = 0;  // for a job that needs one

  using Fields = FieldList<&PlaceJob::job, &PlaceJob::slots, &PlaceJob::store_port>;
};

struct RegisterWorker {
  std::string name;  // empty: the machine derives one from `host`
  std::string host;
  std::string address;
  Incarnation incarnation;
  int slots = 0;
  std::vector<int> ports = {};  // by slot: kept free on the host for the slot's rank; may be empty
  int gpus = 0;                 // the slots below this number have one or more each
  Labels labels = {};
  std::string interface = {};  // the network interface of `address`
  std::string process_tracking = {};
  bool trains_on_gpus = false;  // its trainer can use them
  // Earlier incarnations that the daemon has proven dead. PredecessorsOf makes a LoseWorker of
  // each. RegisterWorker itself ignores them, and the journal does not keep them.
  std::vector<Incarnation> replaces = {};

  using Fields = FieldList<&RegisterWorker::name, &RegisterWorker::host, &RegisterWorker::address,
                           &RegisterWorker::incarnation, &RegisterWorker::slots,
                           &RegisterWorker::ports, &RegisterWorker::gpus, &RegisterWorker::labels,
                           &RegisterWorker::interface, &RegisterWorker::process_tracking,
                           &RegisterWorker::trains_on_gpus, &RegisterWorker::replaces>;
};

// One incarnation of a worker is given up, by Liveness or PredecessorsOf.
struct LoseWorker {
  // Version 1 left the blame with a program's rank that had failed shortly before, as its peer on
  // the worker was gone. Version 2 blames the worker.
  static constexpr uint32_t kVersion = 2;

  WorkerId worker;
  Incarnation incarnation;
  std::string reason;
  uint32_t version = kVersion;

  using Fields = FieldList<&LoseWorker::worker, &LoseWorker::incarnation, &LoseWorker::reason,
                           &LoseWorker::version>;
};

// A worker's daemon is shutting down: its ranks may finish, but it gets no new ones.
struct LeaveWorker {
  WorkerId worker;
  Incarnation incarnation;

  using Fields = FieldList<&LeaveWorker::worker, &LeaveWorker::incarnation>;
};

// A daemon reports all of its slots that ranks cannot use.
struct ReportSlots {
  WorkerId worker;
  Incarnation incarnation;
  uint64_t number = 0;  // counts this incarnation's reports from 1; a late older report is ignored
  std::map<int, std::string> unhealthy;  // slot -> why

  using Fields = FieldList<&ReportSlots::worker, &ReportSlots::incarnation, &ReportSlots::number,
                           &ReportSlots::unhealthy>;
};

// Empties the worker of this name: no incarnation of it gets new ranks until UndrainWorker.
struct DrainWorker {
  std::string worker;
  std::string reason;
  bool hand_over = false;  // its jobs are to continue elsewhere

  using Fields = FieldList<&DrainWorker::worker, &DrainWorker::reason, &DrainWorker::hand_over>;
};

struct UndrainWorker {
  std::string worker;
  std::string reason = {};  // the drain ends only if it has this reason; empty: any

  using Fields = FieldList<&UndrainWorker::worker, &UndrainWorker::reason>;
};

struct ReportRank {
  enum class What { kStarted, kExited, kReleased };
  // Version 1 counted exit code 0 of a program that its worker had stopped as success. It also
  // blamed a rank that failed while another rank's worker was shutting down. Version 2 does
  // neither.
  static constexpr uint32_t kVersion = 2;

  WorkerId worker;
  Incarnation incarnation;
  RankKey rank;
  What what = What::kStarted;
  int64_t pid = 0;                      // with kStarted
  Exit exit;                            // with kExited
  std::string error;                    // with kExited: why there was no process at all
  std::vector<std::string> last_lines;  // with kExited
  bool stopped = false;                 // with kExited: its worker stopped it, or never started it
  std::string stop_reason = {};         // with `stopped`; empty: the worker was shutting down
  bool oom = false;                     // with kExited: killed by the kernel, out of memory
  // If this is not the job's time, the report is about another job of that number, and is rejected.
  // Absent: not checked. The journal has only accepted reports, so it does not keep the time.
  std::optional<absl::Time> job_submitted_at = {};
  uint32_t version = kVersion;

  using Fields =
      FieldList<&ReportRank::worker, &ReportRank::incarnation, &ReportRank::rank, &ReportRank::what,
                &ReportRank::pid, &ReportRank::exit, &ReportRank::error, &ReportRank::last_lines,
                &ReportRank::stopped, &ReportRank::stop_reason, &ReportRank::oom,
                &ReportRank::job_submitted_at, &ReportRank::version>;
};

// Gives a failed job without live ranks another generation: the job is pending again.
struct RetryJob {
  JobId job;
  Generation generation;                   // the one that failed
  absl::Time not_before;                   // the next one is placed no earlier
  std::optional<FailureClass> counted_as;  // the class whose budget pays; absent: none does

  using Fields = FieldList<&RetryJob::job, &RetryJob::generation, &RetryJob::not_before,
                           &RetryJob::counted_as>;
};

// Ends a failed job without live ranks for good.
struct FinishJob {
  JobId job;
  Generation generation;
  std::string reason;  // why there is no other generation

  using Fields = FieldList<&FinishJob::job, &FinishJob::generation, &FinishJob::reason>;
};

struct JoinWorld {
  RankKey rank;
  bool tells_first_step = false;  // a CompleteFirstStep of this rank will follow

  using Fields = FieldList<&JoinWorld::rank, &JoinWorld::tells_first_step>;
};

// The ranks of a generation have done a first step together, or found no step left to do.
struct CompleteFirstStep {
  RankKey rank;  // the reporter; it reports once a generation

  using Fields = FieldList<&CompleteFirstStep::rank>;
};

// The training of a generation ends before its last step.
struct StopEarly {
  RankKey rank;  // the reporter
  std::string reason;

  using Fields = FieldList<&StopEarly::rank, &StopEarly::reason>;
};

// A batch on the store of one generation. The batch is atomic; with `groups`, each group is.
struct StoreBatch {
  JobId job;
  Generation generation;
  uint64_t client = 0;    // with `sequence`: makes a retry idempotent
  uint64_t sequence = 0;  // counts the client's batches from 1; both 0 in a batch that only reads
  std::vector<StoreOperation> operations;
  // The number of operations of each group, in order. Only relays send groups. The sequence must
  // follow that of the relay's last batch, whose answer the store then drops.
  std::vector<uint32_t> groups = {};

  using Fields = FieldList<&StoreBatch::job, &StoreBatch::generation, &StoreBatch::client,
                           &StoreBatch::sequence, &StoreBatch::operations, &StoreBatch::groups>;
};

// A rank reports that its collective failed because of its peers, and takes no further part.
struct AccusePeers {
  RankKey rank;
  std::vector<int> missing;  // the peers that it waited for until its deadline, if any
  std::string error;         // of its collective
  bool insist = false;       // the other ranks have had time to report: decide
  // The ranks of `missing` whose workers are silent too: their hosts are gone, they do not hang.
  std::vector<int> silent = {};

  using Fields = FieldList<&AccusePeers::rank, &AccusePeers::missing, &AccusePeers::error,
                           &AccusePeers::insist, &AccusePeers::silent>;
};

// A rank's process runs, but has not joined within the join_within of its job.
struct GiveUpRank {
  RankKey rank;
  std::string reason;

  using Fields = FieldList<&GiveUpRank::rank, &GiveUpRank::reason>;
};

// A checkpoint is complete on disk. It becomes the job's latest.
struct RegisterCheckpoint {
  RankKey rank;
  int64_t step = 0;    // optimizer steps done
  std::string path;    // its directory
  std::string sha256;  // of its manifest, in hex
  int64_t bytes = 0;
  int keep = 1;  // how many checkpoints stay on record
  // If not empty, it is the best one, too: the metric and its value, in the rank's words.
  std::string best = {};

  using Fields =
      FieldList<&RegisterCheckpoint::rank, &RegisterCheckpoint::step, &RegisterCheckpoint::path,
                &RegisterCheckpoint::sha256, &RegisterCheckpoint::bytes, &RegisterCheckpoint::keep,
                &RegisterCheckpoint::best>;
};

// A rank is about to put the file of the final weights in its place.
struct RegisterWeights {
  RankKey rank;
  std::string path;
  std::string sha256;  // in hex
  int64_t bytes = 0;
  std::optional<absl::Time> modified_at = {};  // as in Weights

  using Fields = FieldList<&RegisterWeights::rank, &RegisterWeights::path, &RegisterWeights::sha256,
                           &RegisterWeights::bytes, &RegisterWeights::modified_at>;
};

// Why the ranks of a generation save and leave, and how the job continues.
enum class HandoverCause {
  kMove,      // the job continues elsewhere
  kDeadline,  // its time is up: the job fails
  kPreempt,   // a job of higher priority takes its slots; the job waits for others
  kGrow,      // the job continues with more ranks
};

// Asks the ranks of the job's generation to save a checkpoint together and to leave.
struct AskHandover {
  // Where the job saves, version 1 claimed that ranks which left had saved, without knowing.
  // Version 2 names the checkpoint on record.
  static constexpr uint32_t kVersion = 2;

  JobId job;
  std::string reason;
  HandoverCause cause = HandoverCause::kMove;
  JobId preempted_by = {};                       // with kPreempt
  absl::Time leave_by = absl::InfiniteFuture();  // ranks that are still there then are stopped
  uint32_t version = kVersion;

  using Fields =
      FieldList<&AskHandover::job, &AskHandover::reason, &AskHandover::cause,
                &AskHandover::preempted_by, &AskHandover::leave_by, &AskHandover::version>;
};

// Gives a person a role, whatever their certificates say.
struct GrantRole {
  std::string name;
  security::Role role = security::Role::kViewer;

  using Fields = FieldList<&GrantRole::name, &GrantRole::role>;
};

// No certificate of this person or worker counts any more that was made until `made_until`. This is
// a time of the clock that certificates are made by. Those of commands may be ahead of it. The
// reply is whether anybody of this name was on record.
struct RevokeAccess {
  std::string name;
  bool worker = false;  // the name is a worker's
  absl::Time made_until;

  using Fields = FieldList<&RevokeAccess::name, &RevokeAccess::worker, &RevokeAccess::made_until>;
};

// A join token is exchanged for a certificate. The reply is the name in the certificate.
struct UseToken {
  std::string id;    // empty: an administrator joins it, without a token
  int uses_max = 0;  // 0: any number
  absl::Time expires_at;
  security::Identity identity;                  // a worker without name gets one
  std::string host = {};                        // after which it is named
  absl::Time made_at = absl::InfiniteFuture();  // the token, by the clock of certificates

  using Fields = FieldList<&UseToken::id, &UseToken::uses_max, &UseToken::expires_at,
                           &UseToken::identity, &UseToken::host, &UseToken::made_at>;
};

using AnyAction =
    std::variant<StartEpoch, SubmitJob, CancelJob, PlaceJob, RegisterWorker, LoseWorker,
                 LeaveWorker, ReportRank, JoinWorld, AccusePeers, StoreBatch, RegisterCheckpoint,
                 RegisterWeights, AskHandover, RetryJob, FinishJob, HoldJob, ReleaseJob,
                 PrioritizeJob, RequeueJob, ExpireJob, ForgetJob, DrainWorker, UndrainWorker,
                 GiveUpRank, ReportSlots, CompleteFirstStep, GrantRole, RevokeAccess, UseToken,
                 StopEarly>;

template <typename Kind, typename Any>
inline constexpr bool kIsKindOf = false;
template <typename Kind, typename... Kinds>
inline constexpr bool kIsKindOf<Kind, std::variant<Kinds...>> = (std::is_same_v<Kind, Kinds> ||
                                                                 ...);

// One of them. Only command.cc says how it is copied, moved and destroyed. Otherwise each file that
// passes a command on would take seconds longer to compile.
struct Action : AnyAction {
  Action();
  template <typename Kind>
  requires kIsKindOf<Kind, AnyAction> Action(Kind kind);  // NOLINT: implicit, as a variant's
  Action(const Action& other);
  Action(Action&& other) noexcept;
  Action& operator=(const Action& other);
  Action& operator=(Action&& other) noexcept;
  ~Action();
};

struct Command {
  absl::Time at;  // when the decision was taken
  Action action;
  // Its originator, as "user ann"; empty: the coordinator itself, or a rank or worker that the
  // action names.
  std::string actor = {};
};

}  // namespace dp::core
