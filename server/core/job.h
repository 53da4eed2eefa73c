#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/field_list.h"
#include "base/id.h"
#include "server/core/checkpoints.h"
#include "server/core/command.h"
#include "server/core/failure_class.h"
#include "server/core/rendezvous.h"

// The coordinator's record of a job. Plain values: job_lifecycle.h moves them, everybody reads
// them.

namespace dp::core {

enum class JobState {
  kPending,    // waits for slots
  kStarting,   // placed; its world is forming
  kRunning,    // its world is sealed
  kStopping,   // a failure or cancellation is recorded; its ranks are being stopped
  kSucceeded,  // terminal, as are the next two: no rank holds a slot
  kFailed,
  kCancelled,
};

// In the order in which a rank goes through the states. A rank never goes back.
enum class RankState {
  kAssigned,  // its worker has not reported it started
  kStarted,   // the process runs
  kJoined,    // it has joined the world
  kExited,    // how it ended is known; its logs may be in flight
  kReleased,  // process tree gone, logs stored, slot free
  kLost,      // its worker was lost, and its slot too
};

// The first failure of a generation is its root cause. Later ones are consequences and are not
// recorded.
struct Failure {
  FailureClass failure_class = FailureClass::kUser;
  std::optional<int> rank;  // absent, as `worker` and `host`, if no rank failed
  std::string worker;
  std::string host;
  std::optional<Exit> exit;
  std::string message;                  // one line for people
  std::vector<std::string> last_lines;  // of the rank's output
  absl::Time at;
  Generation generation = {};                 // not valid if the job was never placed
  std::optional<absl::Time> running_at = {};  // of `generation`; absent: it never ran
  JobId preempted_by = {};                    // with kPreempt: the job that took its slots
  bool before_first_step = false;  // a rank had announced a report of the first step; none came

  using Fields = FieldList<&Failure::failure_class, &Failure::rank, &Failure::worker,
                           &Failure::host, &Failure::exit, &Failure::message, &Failure::last_lines,
                           &Failure::at, &Failure::generation, &Failure::running_at,
                           &Failure::preempted_by, &Failure::before_first_step>;
};

// The failure of a generation that has a successor.
struct PastFailure {
  Failure failure;
  std::optional<FailureClass> counted_as;  // the class whose budget paid; absent: none did

  using Fields = FieldList<&PastFailure::failure, &PastFailure::counted_as>;
};

// The accusations of ranks after a failed collective. A rank that reports is not the one that is
// stuck, even if its peers waited for it: it waited itself.
struct Suspicion {
  std::set<int> spoken;    // ranks whose collective failed because of others
  std::set<int> suspects;  // ranks that peers waited for in vain and that have not reported
  std::string error;       // of the first collective that waited for a rank in vain

  using Fields = FieldList<&Suspicion::spoken, &Suspicion::suspects, &Suspicion::error>;
};

// Why the ranks of a generation are asked to save and leave.
struct Handover {
  std::string reason;
  HandoverCause cause = HandoverCause::kMove;
  JobId preempted_by = {};
  absl::Time leave_by = absl::InfiniteFuture();
  bool names_checkpoint = false;  // the failure names the latest checkpoint

  using Fields = FieldList<&Handover::reason, &Handover::cause, &Handover::preempted_by,
                           &Handover::leave_by, &Handover::names_checkpoint>;

  bool operator==(const Handover&) const = default;
};

// Older failures add little to the latest ones, and each has up to 20 KiB of output.
inline constexpr size_t kPastFailuresMax = 10;

// The place of one rank and its state. Keeps the name and host that its worker had, so that the job
// can be described long after the worker is gone.
struct Rank {
  RankState state = RankState::kAssigned;
  WorkerId worker_id;
  std::string worker;
  std::string host;
  std::string address;
  int slot = 0;
  int local_rank = 0;  // index among the ranks of this job on its worker
  int port = 0;        // kept free for it on its host; 0 if its worker keeps none
  int64_t pid = 0;
  std::optional<Exit> exit;

  using Fields =
      FieldList<&Rank::state, &Rank::worker_id, &Rank::worker, &Rank::host, &Rank::address,
                &Rank::slot, &Rank::local_rank, &Rank::pid, &Rank::port, &Rank::exit>;

  // Whether it holds its slot: its worker still has work to do for it.
  bool live() const { return state < RankState::kReleased; }
  bool succeeded() const { return exit.has_value() && exit->success(); }
};

// The state of a job that another job waits for.
struct AwaitedJob {
  enum class State { kUnfinished, kDone, kInVain };  // kInVain: it had to succeed, but did not
  Dependency on;
  State state = State::kUnfinished;

  using Fields = FieldList<&AwaitedJob::on, &AwaitedJob::state>;
};

struct Job {
  JobId id;
  std::string request_id;
  std::string user;
  std::string owner;  // who may change it (SubmitJob::owner)
  JobSpec spec;
  JobState state = JobState::kPending;
  Revision version;               // of the last change
  Generation generation;          // not valid before the first placement
  std::vector<Rank> ranks;        // empty before the first placement
  int store_port = 0;             // of its TCPStore endpoint, while a rank is live; 0: none
  bool on_gpus = false;           // the ranks of this generation train on GPUs
  bool tells_first_step = false;  // a rank of this generation will report its first step
  std::optional<absl::Time> first_step_at = {};  // of this generation, once reported
  Rendezvous world;
  Suspicion suspicion;
  Checkpoints checkpoints;
  std::optional<Weights> weights;  // the final ones
  // Set once the ranks of this generation are asked to save and leave. A rank that obeys exits with
  // kHandedOverExitCode.
  std::optional<Handover> handover;
  std::optional<Failure> failure;  // set from kStopping on, unless the job succeeds
  std::deque<PastFailure> past;  // of former generations, the latest kPastFailuresMax, oldest first
  // When each budget paid for a restart, by class: the latest kRestartsMax.
  std::map<FailureClass, std::deque<absl::Time>> restarts;
  int restart_count = 0;
  absl::Time not_before = absl::InfinitePast();  // while pending: not placed earlier
  bool no_retry = false;                         // cancelled while it was stopping after a failure
  std::string not_restarted;                     // with kFailed: why there is no other generation
  int priority = 0;
  bool held = false;
  Revision queued;  // among jobs of the same priority, the lowest goes first
  std::vector<AwaitedJob> after;
  absl::Duration time_left = absl::InfiniteDuration();  // of maxDuration, before this generation
  std::optional<absl::Time> deadline;                   // of this generation, while it holds slots
  absl::Time submitted_at;
  std::optional<absl::Time> placed_at;
  std::optional<absl::Time> running_at;
  std::optional<absl::Time> finished_at;
  std::string stopped_early;          // why the training ends before its last step
  std::vector<SealedSecret> secrets;  // dropped at its end, after which nothing starts it again

  using Fields = FieldList<&Job::id, &Job::request_id, &Job::user, &Job::spec, &Job::state,
                           &Job::version, &Job::generation, &Job::ranks, &Job::store_port,
                           &Job::on_gpus, &Job::tells_first_step, &Job::first_step_at, &Job::world,
                           &Job::suspicion, &Job::checkpoints, &Job::weights, &Job::handover,
                           &Job::failure, &Job::past, &Job::restarts, &Job::restart_count,
                           &Job::not_before, &Job::no_retry, &Job::not_restarted, &Job::priority,
                           &Job::held, &Job::queued, &Job::after, &Job::time_left, &Job::deadline,
                           &Job::submitted_at, &Job::placed_at, &Job::running_at, &Job::finished_at,
                           &Job::owner, &Job::secrets, &Job::stopped_early>;

  bool terminal() const { return state >= JobState::kSucceeded; }
  // Whether a rank holds a slot.
  bool live() const;
  // Whether the job may outlive the failure of its generation: RetryJob or FinishJob decides when
  // no rank is left.
  bool may_retry() const;
  bool awaits_verdict() const { return state == JobState::kStopping && !live(); }
  // Bytes that count towards the limit for specs.
  uint64_t spec_bytes() const { return spec.payload.size() + BytesOf(secrets); }
  // The number of ranks of this generation; before the first one, the least number.
  int world_size() const { return ranks.empty() ? spec.ranks : static_cast<int>(ranks.size()); }
};

// The owner of jobs whose owner has never proven who they are: jobs that came in plain text, and
// those in journals of earlier releases.
inline constexpr char kLegacyOwner[] = "legacy";
// The name of the job's owner, for people.
inline std::string OwnerOf(const Job& job) { return job.owner.empty() ? kLegacyOwner : job.owner; }

// Lower case: "starting", "released".
absl::string_view Name(JobState state);
absl::string_view Name(RankState state);

// "exit code 3" or "signal 9 (SIGKILL)".
std::string Describe(const Exit& exit);

}  // namespace dp::core
