#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/id.h"
#include "server/core/checkpoints.h"
#include "server/core/command.h"
#include "server/core/failure_class.h"
#include "server/core/rendezvous.h"

// What the coordinator remembers of a job. Plain values: JobRegistry moves them, everybody reads.

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

// In the order in which a rank goes through them; it never goes back.
enum class RankState {
  kAssigned,  // its worker has not reported it started
  kStarted,   // the process runs
  kJoined,    // it has joined the world
  kExited,    // how it ended is known; its logs may be on their way
  kReleased,  // process tree gone, logs stored, slot free
  kLost,      // its worker was lost, and the slot with it
};

// The first failure of a generation is its root cause; later ones are consequences and not
// recorded.
struct Failure {
  FailureClass failure_class = FailureClass::kUser;
  std::optional<int> rank;  // absent when somebody cancelled; so are `worker` and `host`
  std::string worker;
  std::string host;
  std::optional<Exit> exit;
  std::string message;                  // one line for people
  std::vector<std::string> last_lines;  // of the rank's output
  absl::Time at;
  Generation generation = {};                 // not valid where the job was never placed
  std::optional<absl::Time> running_at = {};  // of its generation; absent: it never ran
  JobId preempted_by = {};                    // who took its slots, with kPreempt
  bool before_first_step = false;             // of its generation, where one of its ranks tells
};

// What ended a generation that had a successor.
struct PastFailure {
  Failure failure;
  std::optional<FailureClass> counted_as;  // whose budget paid; absent: none did
};

// What ranks say of each other when a collective fails. A rank that speaks up is not the one that
// is stuck, even if its peers have waited for it: it waited itself.
struct Suspicion {
  std::set<int> spoken;    // ranks whose collective failed because of others
  std::set<int> suspects;  // ranks that were waited for in vain and have not spoken
  std::string error;       // of the collective that raised it
};

// Why the ranks of a generation are asked to save and leave.
struct Handover {
  std::string reason;
  HandoverCause cause = HandoverCause::kMove;
  JobId preempted_by = {};
  absl::Time leave_by = absl::InfiniteFuture();
  bool names_checkpoint = false;  // says which is on record, rather than that they have saved
};

// More would only repeat what the latest say, each with up to 20 KiB of output.
inline constexpr size_t kPastFailuresMax = 10;

// The place of one rank and what became of it. Keeps the worker's name and host as they were, so
// that the job can be described when the worker is long gone.
struct Rank {
  RankState state = RankState::kAssigned;
  WorkerId worker_id;
  std::string worker;
  std::string host;
  std::string address;
  int slot = 0;
  int local_rank = 0;  // counts the ranks of this job on its worker
  int port = 0;        // kept free on its host for it; 0 where its worker keeps none
  int64_t pid = 0;
  std::optional<Exit> exit;

  // Holds its slot: its worker still has to do something for it.
  bool live() const { return state < RankState::kReleased; }
  bool succeeded() const { return exit.has_value() && exit->success(); }
};

// What has become of a job that another waits for.
struct AwaitedJob {
  enum class State { kUnfinished, kDone, kInVain };  // kInVain: it had to succeed, and did not
  Dependency on;
  State state = State::kUnfinished;
};

struct Job {
  JobId id;
  std::string request_id;
  std::string user;
  JobSpec spec;
  JobState state = JobState::kPending;
  Revision version;               // of the last change
  Generation generation;          // not valid before the first placement
  std::vector<Rank> ranks;        // empty before the first placement
  int store_port = 0;             // of its TCPStore endpoint, until all its ranks are gone; 0: none
  bool on_gpus = false;           // the ranks of this generation train on GPUs
  bool tells_first_step = false;  // so does a rank of this generation
  std::optional<absl::Time> first_step_at = {};  // of this generation, once it was told
  Rendezvous world;
  Suspicion suspicion;
  Checkpoints checkpoints;
  std::optional<Weights> weights;  // the final ones
  // Set once the ranks of this generation are asked to save and leave. A rank that does so exits
  // with kHandedOverExitCode.
  std::optional<Handover> handover;
  std::optional<Failure> failure;  // set from kStopping on, unless the job succeeds
  std::deque<PastFailure> past;  // of former generations, the latest kPastFailuresMax, oldest first
  // When each budget paid for a restart, the latest kRestartsMax; by class.
  std::map<FailureClass, std::deque<absl::Time>> restarts;
  int restart_count = 0;
  absl::Time not_before = absl::InfinitePast();  // while pending: not placed earlier
  bool no_retry = false;      // was cancelled while it was stopping after a failure
  std::string not_restarted;  // with kFailed: why there is no other generation
  int priority = 0;
  bool held = false;
  Revision queued;  // of those with the same priority, the one that was queued first goes first
  std::vector<AwaitedJob> after;
  absl::Duration time_left = absl::InfiniteDuration();  // of maxDuration, before this generation
  std::optional<absl::Time> deadline;                   // of this generation, while it holds slots
  absl::Time submitted_at;
  std::optional<absl::Time> placed_at;
  std::optional<absl::Time> running_at;
  std::optional<absl::Time> finished_at;

  bool terminal() const { return state >= JobState::kSucceeded; }
  // A rank holds a slot.
  bool live() const;
  // What ends its generation need not end the job: RetryJob or FinishJob decides when no rank is
  // left.
  bool may_retry() const;
  bool awaits_verdict() const { return state == JobState::kStopping && !live(); }
  // Ranks of this generation; before the first one, how many it will have at least.
  int world_size() const { return ranks.empty() ? spec.ranks : static_cast<int>(ranks.size()); }
};

// Lower case, as people read them: "starting", "released".
absl::string_view Name(JobState state);
absl::string_view Name(RankState state);

// "exit code 3" or "signal 9 (SIGKILL)".
std::string Describe(const Exit& exit);

}  // namespace dp::core
