#include "tests/torture/random_commands.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "server/policy/placement.h"

namespace dp::torture {
namespace {

using core::Action;
using core::AnyAction;
using core::Job;
using core::JobState;
using MaybeAction = std::optional<Action>;

constexpr size_t kWorkersMax = 4;
constexpr size_t kJobsMax = 12;  // not terminal
constexpr size_t kValueBytesMax = 1500;
constexpr int kCommonPercent = 70;

bool Runs(const Job& job) {
  return job.state == JobState::kStarting || job.state == JobState::kRunning;
}
bool Waits(const Job& job) { return job.state == JobState::kPending; }
bool HasRanks(const Job& job) { return job.live(); }
bool IsNotOver(const Job& job) { return !job.terminal(); }
bool AwaitsVerdict(const Job& job) { return job.awaits_verdict() && job.may_retry(); }

}  // namespace

size_t RandomCommands::Below(size_t bound) { return NextRandom(random_) % bound; }

template <typename Suits>
const Job* RandomCommands::AnyJob(Suits suits) {
  std::vector<const Job*> found;
  for (const Job* job : coordinator_->jobs()) {
    if (suits(*job)) found.push_back(job);
  }
  return found.empty() ? nullptr : found[Below(found.size())];
}

const core::Worker* RandomCommands::AnyWorker() {
  std::vector<const core::Worker*> found;
  for (const core::Worker* worker : coordinator_->workers()) {
    if (worker->ready()) found.push_back(worker);
  }
  return found.empty() ? nullptr : found[Below(found.size())];
}

std::optional<core::RankKey> RandomCommands::AnyRank() {
  const Job* job = AnyJob(HasRanks);
  if (job == nullptr) return std::nullopt;
  return core::RankKey{job->id, job->generation, static_cast<int>(Below(job->ranks.size()))};
}

template <size_t kIndex>
MaybeAction RandomCommands::DrawKind(RandomCommands& draws) {
  return draws.Make(Of<std::variant_alternative_t<kIndex, AnyAction>>());
}

Action RandomCommands::Draw(const core::Coordinator& coordinator) {
  constexpr size_t kKinds = std::variant_size_v<AnyAction>;
  using MakeKind = MaybeAction (*)(RandomCommands&);
  static constexpr auto kMake = []<size_t... kIndex>(std::index_sequence<kIndex...>) {
    return std::array<MakeKind, kKinds>{&DrawKind<kIndex>...};
  }
  (std::make_index_sequence<kKinds>());
  coordinator_ = &coordinator;
  ++drawn_;
  for (;;) {
    MaybeAction action = Chance(kCommonPercent) ? DrawCommon() : kMake[Below(kKinds)](*this);
    if (action.has_value()) return *std::move(action);
  }
}

MaybeAction RandomCommands::DrawCommon() {
  switch (Below(8)) {
    case 0:
      return Make(Of<core::RegisterWorker>());
    case 1:
      return Make(Of<core::SubmitJob>());
    case 2:
      return Make(Of<core::PlaceJob>());
    case 3:
      return Make(Of<core::ReportRank>());
    case 4:
      return Make(Of<core::JoinWorld>());
    case 5:
      return Make(Of<core::RetryJob>());
    default:
      return Make(Of<core::StoreBatch>());
  }
}

MaybeAction RandomCommands::Make(Of<core::StartEpoch>) {
  return core::StartEpoch{{.keys = 1000 + Below(1000)}};
}

MaybeAction RandomCommands::Make(Of<core::SubmitJob>) {
  size_t open = 0;
  for (const Job* job : coordinator_->jobs()) open += IsNotOver(*job);
  if (open >= kJobsMax) return std::nullopt;
  core::JobSpec spec{.name = "job", .ranks = 1 + static_cast<int>(Below(3)), .payload = "payload"};
  spec.joins_by_running = Chance(30);
  if (Chance(70)) spec.restart = core::RestartLimits{.user = 5};
  spec.scheduling.priority = static_cast<int>(Below(5)) - 2;
  spec.scheduling.preemptible = Chance(50);
  if (Chance(20)) spec.scheduling.max_duration = absl::Minutes(10);
  if (Chance(20)) spec.scheduling.ttl_after_finish = absl::Minutes(1);
  spec.saves = Chance(50);
  if (Chance(30)) spec.detect_within = absl::Seconds(1 + Below(9));
  core::SubmitJob submit{absl::StrCat("request ", drawn_), std::move(spec),
                         Chance(50) ? "ann" : ""};
  if (Chance(20)) submit.secrets = {{"TOKEN", std::string("sealed\0\xff", 8)}};
  return submit;
}

MaybeAction RandomCommands::Make(Of<core::CancelJob>) {
  const Job* job = AnyJob(IsNotOver);
  if (job == nullptr) return std::nullopt;
  return core::CancelJob{job->id};
}

MaybeAction RandomCommands::Make(Of<core::PlaceJob>) {
  core::Placement plan = core::PlanPlacement(*coordinator_, {}, absl::InfiniteFuture());
  if (plan.place.empty()) return std::nullopt;
  return std::move(plan.place[Below(plan.place.size())]);
}

MaybeAction RandomCommands::Make(Of<core::RegisterWorker>) {
  size_t ready = 0;
  for (const core::Worker* worker : coordinator_->workers()) ready += worker->ready();
  if (ready >= kWorkersMax) return std::nullopt;
  core::RegisterWorker worker{"", absl::StrCat("host", Below(3)), "address", Incarnation(drawn_),
                              1 + static_cast<int>(Below(3))};
  if (Chance(30)) worker.labels["zone"] = "b";
  return worker;
}

MaybeAction RandomCommands::Make(Of<core::LoseWorker>) {
  const core::Worker* worker = AnyWorker();
  if (worker == nullptr) return std::nullopt;
  return core::LoseWorker{worker->id, worker->incarnation, "no heartbeat for 6s"};
}

MaybeAction RandomCommands::Make(Of<core::LeaveWorker>) {
  const core::Worker* worker = AnyWorker();
  if (worker == nullptr) return std::nullopt;
  return core::LeaveWorker{worker->id, worker->incarnation};
}

// The next milestone of some rank. Ranks mostly exit well, or as they were asked to.
MaybeAction RandomCommands::Make(Of<core::ReportRank>) {
  using What = core::ReportRank::What;
  const auto key = AnyRank();
  if (!key.has_value()) return std::nullopt;
  const Job& job = *coordinator_->job(key->job);
  const core::Rank& rank = job.ranks[key->rank];
  const core::Worker* worker = coordinator_->worker(rank.worker_id);
  if (worker == nullptr) return std::nullopt;
  core::ReportRank report{
      .worker = rank.worker_id, .incarnation = worker->incarnation, .rank = *key};
  report.what = rank.state == core::RankState::kAssigned ? What::kStarted
                : rank.exit.has_value()                  ? What::kReleased
                                                         : What::kExited;
  report.pid = static_cast<int64_t>(100 + drawn_);
  const bool leaves = job.handover.has_value() && Chance(70);
  report.exit = {core::Exit::How::kCode, leaves ? kHandedOverExitCode : Chance(70) ? 0 : 1};
  if (Chance(10)) report.exit = {core::Exit::How::kSignal, 9};
  report.oom = report.exit.how == core::Exit::How::kSignal && Chance(50);
  report.last_lines = {absl::StrCat("line ", drawn_), "not utf-8: \xff"};
  return report;
}

MaybeAction RandomCommands::Make(Of<core::JoinWorld>) {
  const auto rank = AnyRank();
  if (!rank.has_value()) return std::nullopt;
  return core::JoinWorld{*rank, /*tells_first_step=*/rank->rank == 0 && Chance(80)};
}

MaybeAction RandomCommands::Make(Of<core::CompleteFirstStep>) {
  const auto rank = AnyRank();
  if (!rank.has_value()) return std::nullopt;
  return core::CompleteFirstStep{*rank};
}

MaybeAction RandomCommands::Make(Of<core::StopEarly>) {
  const auto rank = AnyRank();
  if (!rank.has_value()) return std::nullopt;
  return core::StopEarly{*rank, absl::StrCat("loss has not improved on ", Below(3))};
}

MaybeAction RandomCommands::Make(Of<core::AccusePeers>) {
  const auto rank = AnyRank();
  if (!rank.has_value()) return std::nullopt;
  const int size = coordinator_->job(rank->job)->world_size();
  return core::AccusePeers{*rank, {static_cast<int>(Below(size))}, "it did not arrive", Chance(50)};
}

MaybeAction RandomCommands::Make(Of<core::GiveUpRank>) {
  const auto rank = AnyRank();
  if (!rank.has_value()) return std::nullopt;
  return core::GiveUpRank{*rank, "it runs, and has not joined for 32s"};
}

MaybeAction RandomCommands::Make(Of<core::StoreBatch>) {
  const Job* job = AnyJob(Runs);
  if (job == nullptr) return std::nullopt;
  const std::string key = absl::StrCat("key ", Below(9));
  const std::string value(Below(kValueBytesMax), static_cast<char>('a' + drawn_ % 26));
  core::StoreBatch batch{job->id, job->generation, /*client=*/1 + Below(3), drawn_, {}};
  switch (Below(5)) {
    case 0:
      batch.operations = {StoreAdd{absl::StrCat("count ", Below(3)), 1}};
      break;
    case 1:
      batch.operations = {StoreQueuePush{"queue", value}, StoreQueuePop{"queue"}};
      break;
    case 2:
      batch.operations = {StoreDelete{key}, StoreAppend{"log", "+"}};
      break;
    default:
      batch.operations = {StoreSet{key, value}};
  }
  return batch;
}

MaybeAction RandomCommands::Make(Of<core::RegisterCheckpoint>) {
  const auto rank = AnyRank();
  if (!rank.has_value()) return std::nullopt;
  const auto step = static_cast<int64_t>(drawn_);
  return core::RegisterCheckpoint{*rank,
                                  step,
                                  absl::StrCat("/checkpoints/", step),
                                  std::string(64, 'a'),
                                  1 << 20,
                                  1 + static_cast<int>(Below(3)),
                                  Chance(30) ? absl::StrCat("loss ", Below(9)) : ""};
}

MaybeAction RandomCommands::Make(Of<core::RegisterWeights>) {
  const auto rank = AnyRank();
  if (!rank.has_value()) return std::nullopt;
  return core::RegisterWeights{*rank, absl::StrCat("/weights/", drawn_), std::string(64, 'b'), 1};
}

MaybeAction RandomCommands::Make(Of<core::AskHandover>) {
  using Cause = core::HandoverCause;
  const Job* job = AnyJob(Runs);
  if (job == nullptr) return std::nullopt;
  core::AskHandover ask{job->id, "asked"};
  ask.cause = std::array{Cause::kMove, Cause::kDeadline, Cause::kGrow}[Below(3)];
  ask.version = 1 + static_cast<uint32_t>(Below(core::AskHandover::kVersion));
  return ask;
}

MaybeAction RandomCommands::Make(Of<core::RetryJob>) {
  const Job* job = AnyJob(AwaitsVerdict);
  if (job == nullptr) return std::nullopt;
  core::RetryJob retry{job->id, job->generation, job->failure->at + absl::Seconds(Below(3)), {}};
  const auto paid = job->restarts.find(core::FailureClass::kUser);
  const size_t limit = job->spec.restart.value_or(core::RestartLimits{}).user;
  // The policy never lets a budget pay for more.
  const bool can_pay = paid == job->restarts.end() || paid->second.size() < limit;
  if (Chance(60) && can_pay) retry.counted_as = core::FailureClass::kUser;
  return retry;
}

MaybeAction RandomCommands::Make(Of<core::FinishJob>) {
  const Job* job = AnyJob(AwaitsVerdict);
  if (job == nullptr) return std::nullopt;
  return core::FinishJob{job->id, job->generation, "restart.maxRestarts is 0"};
}

MaybeAction RandomCommands::Make(Of<core::HoldJob>) {
  const Job* job = AnyJob(Waits);
  if (job == nullptr) return std::nullopt;
  return core::HoldJob{job->id};
}

MaybeAction RandomCommands::Make(Of<core::ReleaseJob>) {
  const Job* job = AnyJob([](const Job& each) { return each.held && !each.terminal(); });
  if (job == nullptr) return std::nullopt;
  return core::ReleaseJob{job->id};
}

MaybeAction RandomCommands::Make(Of<core::PrioritizeJob>) {
  const Job* job = AnyJob(IsNotOver);
  if (job == nullptr) return std::nullopt;
  return core::PrioritizeJob{job->id, static_cast<int>(Below(9)) - 4};
}

MaybeAction RandomCommands::Make(Of<core::RequeueJob>) {
  const Job* job = AnyJob(IsNotOver);
  if (job == nullptr) return std::nullopt;
  return core::RequeueJob{job->id, job->generation, Chance(50) ? "its worker is drained" : "", {}};
}

MaybeAction RandomCommands::Make(Of<core::ExpireJob>) {
  const Job* job = AnyJob(Runs);
  if (job == nullptr) return std::nullopt;
  return core::ExpireJob{job->id};
}

MaybeAction RandomCommands::Make(Of<core::ForgetJob>) {
  const Job* job = AnyJob([](const Job& each) { return each.terminal(); });
  if (job == nullptr) return std::nullopt;
  return core::ForgetJob{job->id};
}

MaybeAction RandomCommands::Make(Of<core::DrainWorker>) {
  const core::Worker* worker = AnyWorker();
  if (worker == nullptr) return std::nullopt;
  return core::DrainWorker{worker->name, "new disks", Chance(50)};
}

MaybeAction RandomCommands::Make(Of<core::UndrainWorker>) {
  for (const core::Worker* worker : coordinator_->workers()) {
    if (worker->drain.has_value()) return core::UndrainWorker{worker->name};
  }
  return std::nullopt;
}

MaybeAction RandomCommands::Make(Of<core::ReportSlots>) {
  const core::Worker* worker = AnyWorker();
  if (worker == nullptr) return std::nullopt;
  core::ReportSlots report{worker->id, worker->incarnation, drawn_, {}};
  if (Chance(50)) report.unhealthy[0] = "GPU 0 still holds 9 MiB";
  return report;
}

MaybeAction RandomCommands::Make(Of<core::GrantRole>) {
  return core::GrantRole{absl::StrCat("person-", Below(3)),
                         Chance(50) ? security::Role::kUser : security::Role::kAdmin};
}

MaybeAction RandomCommands::Make(Of<core::RevokeAccess>) {
  const bool worker = Chance(50);
  return core::RevokeAccess{absl::StrCat(worker ? "worker-" : "person-", Below(3)), worker,
                            coordinator_->state().at};
}

MaybeAction RandomCommands::Make(Of<core::UseToken>) {
  const std::string name = Chance(50) ? "worker" : "";
  return core::UseToken{absl::StrCat("token-", Below(3)),
                        static_cast<int>(Below(3)),
                        coordinator_->state().at + absl::Seconds(Below(100)),
                        {security::Role::kWorker, name},
                        "host"};
}

}  // namespace dp::torture
