#include "server/core/coordinator.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/status.h"
#include "server/core/digest.h"

namespace dp::core {
namespace {

// A line names so many workers and counts the rest.
constexpr size_t kWorkersNamedMax = 8;

// Ranks of one worker are adjacent.
std::string WorkersOf(const Job& job) {
  std::vector<std::string> names;
  for (const Rank& rank : job.ranks) {
    if (names.empty() || names.back() != rank.worker) names.push_back(rank.worker);
  }
  if (names.size() <= kWorkersNamedMax) return absl::StrJoin(names, ", ");
  const size_t more = names.size() - kWorkersNamedMax;
  names.resize(kWorkersNamedMax);
  return absl::StrCat(absl::StrJoin(names, ", "), " and ", more, " more");
}

}  // namespace

Outcome Coordinator::Apply(const Command& command) {
  now_ = command.at;
  actor_ = command.actor;
  touched_.clear();
  store_changes_.clear();
  recorded_ = false;
  forgotten_.clear();
  Outcome outcome = Finish(
      std::visit([&](const auto& action) { return On(action, command.at); }, command.action));
  if (outcome.journal) state_.at = command.at;
  return outcome;
}

// A rejected command must not have touched anything. A change makes a new revision, which becomes
// the version of every touched topic.
Outcome Coordinator::Finish(absl::StatusOr<Reply> reply) {
  Outcome outcome;
  outcome.status = reply.status();
  outcome.journal = recorded_ || !touched_.empty();
  if (!reply.ok()) {
    // Replay applies journalled commands only. A rejected command that changed something would be
    // missing after a restart, and every later command would meet another state.
    DP_CHECK(!outcome.journal);
    return outcome;
  }
  outcome.reply = *std::move(reply);
  if (!outcome.journal) return outcome;
  state_.revision = NextRevision();
  for (const Topic& topic : touched_) Stamp(topic);
  outcome.changed = std::move(store_changes_);
  outcome.changed.insert(outcome.changed.end(), touched_.begin(), touched_.end());
  outcome.forgotten = std::move(forgotten_);
  return outcome;
}

void Coordinator::Stamp(const Topic& topic) {
  if (topic.kind == Topic::Kind::kJob) {
    if (Job* job = state_.jobs.Find(JobId(topic.id))) job->version = state_.revision;
  } else if (topic.kind != Topic::Kind::kWorldState) {  // which has kWorld's version
    state_.versions[topic] = state_.revision;
  }
}

absl::StatusOr<Reply> Coordinator::On(const StartEpoch& command, absl::Time at) {
  state_.epoch = Epoch(state_.epoch.value() + 1);
  if (command.version > 1) {
    const uint64_t now = std::max<int64_t>(0, absl::ToUnixMicros(at));
    state_.epoch = std::max(state_.epoch, Epoch(now));
    state_.revision = std::max(state_.revision, Revision(now));
  }
  state_.store_limits = command.store_limits;
  state_.kept_answers = command.kept_answers;
  for (auto& [job, store] : state_.stores) store.Limit(command.store_limits, command.kept_answers);
  recorded_ = true;
  return Reply(state_.epoch);
}

Coordinator::Sight Coordinator::See(const Job& job) {
  return {job.state, job.world.state(), job.world.members().size()};
}

// Watchers of the job see every move. The list of jobs and the assignments show less of the job, so
// they are touched only when that part changes. A job of 10,000 ranks moves as often, and each move
// would wake every daemon. The store goes when its world closes, since nobody may write then.
void Coordinator::Moved(const Job& job, const Sight& before) {
  const Sight now = See(job);
  Touch({Topic::Kind::kJob, job.id.value()});
  if (now.state != before.state) {
    Touch({Topic::Kind::kJobList});
    TellMove(job);
    if (now.state == JobState::kStarting || now.state == JobState::kStopping) TouchWorkers(job);
  }
  if (now.world != before.world) {
    TouchWorld(job.id);
  } else if (now.members != before.members) {
    Touch({Topic::Kind::kWorld, job.id.value()});
  }
  if (now.world == WorldState::kClosed && before.world != WorldState::kClosed) {
    state_.stores.erase(job.id);
  }
  if (!job.live()) ReleaseStorePort(job);
  if (!job.terminal()) return;
  const JobRegistry::Retired retired = state_.jobs.Retire(job.id);
  for (const JobId went_on : retired.went_on) Touch({Topic::Kind::kJob, went_on.value()});
  if (retired.forgotten.has_value()) Forgot(*retired.forgotten);
}

void Coordinator::TouchWorld(JobId job) {
  Touch({Topic::Kind::kWorld, job.value()});
  Touch({Topic::Kind::kWorldState, job.value()});
}

void Coordinator::Forgot(JobId job) {
  state_.versions.erase({Topic::Kind::kWorld, job.value()});
  state_.events.Forget(job);
  forgotten_.push_back(job);
}

void Coordinator::ReleaseStorePort(const Job& job) {
  if (job.store_port == 0) return;
  state_.store_ports.Release(job.store_port, job.id, now_);
  state_.jobs.Find(job.id)->store_port = 0;
}

void Coordinator::TouchWorkers(const Job& job) {
  for (const Rank& rank : job.ranks) {
    if (rank.live()) TouchWorker(rank.worker_id);
  }
}

void Coordinator::TouchWorker(WorkerId worker) {
  Touch({Topic::Kind::kAssignment, worker.value()});
  Touch({Topic::Kind::kWorkers});
}

void Coordinator::ForgetWorkers() {
  auto it = state_.versions.lower_bound({Topic::Kind::kAssignment});
  while (it != state_.versions.end() && it->first.kind == Topic::Kind::kAssignment) {
    const bool known = worker(WorkerId(it->first.id)) != nullptr;
    it = known ? std::next(it) : state_.versions.erase(it);
  }
}

Revision Coordinator::version(const Topic& topic) const {
  if (topic.kind == Topic::Kind::kJob) {
    const Job* found = job(JobId(topic.id));
    return found == nullptr ? Revision() : found->version;
  }
  const auto it = state_.versions.find(topic);
  return it == state_.versions.end() ? Revision() : it->second;
}

absl::StatusOr<World> Coordinator::world(JobId id, MemberTable table) const {
  const Job* found = job(id);
  if (found == nullptr) return UnknownJob(id);
  World world = WorldOf(*found, table);
  world.version = version({Topic::Kind::kWorld, id.value()});
  return world;
}

absl::Status Coordinator::CheckWorker(WorkerId id, Incarnation incarnation) const {
  return state_.workers.Check(id, incarnation);
}

absl::StatusOr<Assignment> Coordinator::assignment(WorkerId id, Incarnation incarnation) const {
  DP_RETURN_IF_ERROR(CheckWorker(id, incarnation));
  Assignment assignment = AssignmentOf(*worker(id), state_.jobs);
  assignment.version = version({Topic::Kind::kAssignment, id.value()});
  return assignment;
}

absl::StatusOr<const KeyValues*> Coordinator::store(JobId id, Generation generation) const {
  const Job* found = job(id);
  if (found == nullptr) return UnknownJob(id);
  DP_RETURN_IF_ERROR(CheckGeneration(*found, generation));
  const auto it = state_.stores.find(id);
  if (it != state_.stores.end()) return &it->second.values();
  return absl::FailedPreconditionError(absl::StrCat("job ", id.ToString(), ": generation ",
                                                    generation.ToString(),
                                                    " is over: ", found->world.closing_reason()));
}

uint64_t Coordinator::StateDigest() const { return DigestOf(state_); }

void Coordinator::Tell(const Job& job, absl::string_view kind, std::string text) {
  state_.events.Add({.at = now_,
                     .job = job.id,
                     .kind = std::string(kind),
                     .text = std::move(text),
                     .actor = actor_});
  Touch({Topic::Kind::kEvents});
}

void Coordinator::Tell(const Worker& worker, absl::string_view kind, std::string text) {
  state_.events.Add({.at = now_,
                     .worker = worker.name,
                     .kind = std::string(kind),
                     .text = std::move(text),
                     .actor = actor_});
  Touch({Topic::Kind::kEvents});
}

void Coordinator::Tell(absl::string_view kind, std::string text) {
  state_.events.Add(
      {.at = now_, .kind = std::string(kind), .text = std::move(text), .actor = actor_});
  Touch({Topic::Kind::kEvents});
}

void Coordinator::TellMove(const Job& job) {
  switch (job.state) {
    case JobState::kPending:
      return Tell(job, "retried", job.past.empty() ? "" : job.past.back().failure.message);
    case JobState::kStarting:
      return Tell(job, "placed",
                  absl::StrCat("generation ", job.generation.ToString(), " on ", WorkersOf(job)));
    case JobState::kRunning:
    case JobState::kSucceeded:
      return Tell(job, Name(job.state));
    case JobState::kStopping:
    case JobState::kFailed:
    case JobState::kCancelled:
      return Tell(job, Name(job.state), job.failure->message);
  }
}

}  // namespace dp::core
