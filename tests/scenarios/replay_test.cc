#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/random.h"
#include "server/core/coordinator.h"
#include "server/core/invariants.h"
#include "server/policy/placement.h"
#include "server/policy/retry_policy.h"
#include "tests/journals/reload.h"

// Applies random commands, sensible and not, to the machine. Its invariants hold after each. The
// journal replays to the same state and the same answers, even through a snapshot between any two
// commands. `--seed=N` runs one seed.

namespace dp::core {

constexpr uint64_t kSeeds = 200;
constexpr int kCommands = 300;
uint64_t only_seed = 0;

namespace {

// Draws commands over few names, so that they often meet. Follows no protocol.
class CommandSource {
 public:
  explicit CommandSource(uint64_t seed) : random_(seed) {}

  Action Next(const Coordinator& coordinator) {
    switch (Below(16)) {
      case 0:
        return Submit();
      case 1:
        return RegisterWorker{Below(2) ? "" : absl::StrCat("w", Below(3)), "host", "address",
                              Incarnation(Below(20)), Below(4)};
      case 2:
        if (Below(4) == 0) return CancelJob{Job()};
        [[fallthrough]];
      case 3:
        return Place(coordinator);
      case 4:
        if (Below(4) == 0) return LoseWorker{WorkerId(Below(6)), Incarnation(Below(20)), "silent"};
        [[fallthrough]];
      case 5:
      case 6:
        return JoinWorld{Rank(coordinator)};
      case 7:
        return Batch();
      case 8:
        return Files(coordinator);
      case 9:
        return Verdict(coordinator);
      case 10:
        return OfTheQueue();
      case 11:
        return OfTheCluster();
      default:
        return Report(coordinator);
    }
  }

 private:
  int Below(int bound) { return static_cast<int>(NextRandom(random_) % bound); }
  JobId Job() { return JobId(Below(12)); }

  SubmitJob Submit() {
    SubmitJob submit{absl::StrCat("request ", Below(40)), {"job", Below(5), "spec"}};
    if (Below(3) != 0) submit.spec.restart = RestartLimits{.user = Below(3), .infra = Below(3)};
    if (Below(4) == 0) submit.spec.nodes = 1, submit.spec.nodes_max = Below(3);
    Scheduling& scheduling = submit.spec.scheduling;
    scheduling.hold = Below(6) == 0;
    scheduling.singleton = Below(6) == 0;
    scheduling.preemptible = Below(2) == 0;
    if (Below(2) == 0) scheduling.grow_after = absl::Seconds(Below(100));
    submit.spec.saves = Below(2) == 0;
    if (Below(4) == 0) scheduling.max_duration = absl::Seconds(Below(100));
    if (Below(6) == 0) scheduling.after = {{Job(), Below(2) == 0}};
    return submit;
  }

  Action OfTheQueue() {
    switch (Below(6)) {
      case 0:
        return HoldJob{Job()};
      case 1:
        return ReleaseJob{Job()};
      case 2:
        return PrioritizeJob{Job(), Below(2100) - 1050};
      case 3:
        return RequeueJob{Job(), Generation(Below(3)), Below(2) == 0 ? "" : "drained",
                          Below(2) == 0 ? JobId() : Job()};
      case 4:
        return ExpireJob{Job()};
      default:
        return ForgetJob{Job()};
    }
  }

  Action OfTheCluster() {
    const std::string worker = absl::StrCat("w", Below(3));
    if (Below(3) != 0) return UndrainWorker{worker};
    return DrainWorker{worker, Below(5) == 0 ? "" : "disks", Below(2) == 0};
  }

  // Mostly the retry policy's verdict, if one is due.
  Action Verdict(const Coordinator& coordinator) {
    if (Below(4) == 0) return GiveUpRank{Rank(coordinator), "it has not joined"};
    const std::vector<Action> verdicts =
        PlanRetries(coordinator, absl::FromUnixSeconds(Below(kCommands)));
    if (!verdicts.empty() && Below(4) != 0) return verdicts.front();
    if (Below(2) == 0) return FinishJob{Job(), Generation(Below(3)), "no more"};
    return RetryJob{Job(), Generation(Below(3)), absl::UnixEpoch(), {}};
  }

  // Mostly the placement's verdict, sometimes nonsense.
  Action Place(const Coordinator& coordinator) {
    const Placement placement = PlanPlacement(coordinator, {}, absl::InfiniteFuture());
    if (!placement.place.empty() && Below(4) != 0) return placement.place.front();
    return PlaceJob{Job(), {{WorkerId(Below(6)), Below(4)}}};
  }

  // Mostly a rank of an unfinished job.
  RankKey Rank(const Coordinator& coordinator) {
    for (const core::Job* job : coordinator.jobs()) {
      if (job->terminal() || job->ranks.empty() || Below(3) == 0) continue;
      return {job->id, job->generation, Below(static_cast<int>(job->ranks.size()))};
    }
    return {Job(), Generation(Below(3)), Below(4)};
  }

  // A checkpoint, final weights, or a request to hand over; sometimes nonsense.
  Action Files(const Coordinator& coordinator) {
    const RankKey rank = Rank(coordinator);
    const std::string hash(64, Below(2) ? 'a' : 'b');
    switch (Below(4)) {
      case 0:
        return RegisterWeights{rank, "/w", hash, Below(9)};
      case 1:
        return AskHandover{rank.job, Below(4) ? "drained" : "",
                           static_cast<HandoverCause>(Below(4)), Below(2) ? JobId() : Job(),
                           absl::FromUnixSeconds(Below(kCommands))};
      default:
        return RegisterCheckpoint{rank, Below(9) - 1, "/c", hash, Below(9), Below(4)};
    }
  }

  ReportRank Report(const Coordinator& coordinator) {
    ReportRank report;
    report.rank = Rank(coordinator);
    const core::Job* job = coordinator.job(report.rank.job);
    const bool known = job != nullptr && static_cast<size_t>(report.rank.rank) < job->ranks.size();
    report.worker = known && Below(8) ? job->ranks[report.rank.rank].worker_id : WorkerId(Below(6));
    const Worker* worker = coordinator.worker(report.worker);
    report.incarnation = worker && Below(8) ? worker->incarnation : Incarnation(Below(20));
    report.what = static_cast<ReportRank::What>(Below(3));
    report.pid = Below(1000);
    report.exit = {static_cast<Exit::How>(Below(2)), Below(3) ? 0 : 9};
    if (Below(10) == 0) report.error = "no such file";
    return report;
  }

  StoreBatch Batch() {
    StoreBatch batch{Job(),
                     Generation(1 + Below(2)),
                     static_cast<uint64_t>(Below(3)),
                     static_cast<uint64_t>(Below(9)),
                     {}};
    for (int size = 1 + Below(3); size > 0; --size) batch.operations.push_back(Operation());
    if (Below(2) == 0) batch.groups.assign(batch.operations.size(), 1);
    return batch;
  }

  StoreOperation Operation() {
    const std::string key = absl::StrCat("key", Below(3));
    const StoreOperation verbs[] = {StoreAdd{key, Below(9)},
                                    StoreAdd{key, 1},
                                    StoreSet{key, absl::StrCat(Below(3))},
                                    StoreSet{key, "text"},
                                    StoreAppend{key, "0"},
                                    StoreCompareSet{key, Below(2) ? "" : "1", "2"},
                                    StoreDelete{key},
                                    StoreQueuePush{key, absl::StrCat(Below(9))},
                                    StoreQueuePush{key, ""},
                                    StoreQueuePop{key},
                                    StoreGet{key},
                                    StoreList{"key"},
                                    StoreCheck{{key, "key0"}},
                                    StoreReached{key, Below(3)},
                                    StoreNewer{key, static_cast<uint64_t>(Below(3))},
                                    StoreQueueLength{key}};
    return verbs[Below(std::size(verbs))];
  }

  uint64_t random_;
};

struct History {
  std::vector<Command> journal;
  std::vector<Outcome> outcomes;
  uint64_t digest = 0;
};

History RunRandomly(uint64_t seed) {
  History history;
  CommandSource source(seed);
  Coordinator coordinator;
  Invariants invariants;
  for (int i = 0; i < kCommands; ++i) {
    const Command command{absl::FromUnixSeconds(i), source.Next(coordinator)};
    Outcome outcome = coordinator.Apply(command);
    const std::string broken = absl::StrJoin(invariants.Broken(coordinator.state()), "\n");
    EXPECT_EQ(broken, "") << "after command " << i;
    if (!broken.empty()) break;
    if (!outcome.journal) continue;
    history.journal.push_back(command);
    history.outcomes.push_back(std::move(outcome));
  }
  history.digest = coordinator.StateDigest();
  return history;
}

void CheckReplay(const History& history) {
  Coordinator coordinator;
  for (size_t i = 0; i < history.journal.size(); ++i) {
    const Outcome outcome = coordinator.Apply(history.journal[i]);
    EXPECT_EQ(outcome.status, history.outcomes[i].status);
    EXPECT_EQ(outcome.reply, history.outcomes[i].reply);
    EXPECT_EQ(outcome.changed, history.outcomes[i].changed);
    const uint64_t digest = coordinator.StateDigest();
    coordinator = Coordinator(reload::Reload(coordinator.state()));
    EXPECT_EQ(coordinator.StateDigest(), digest);
  }
  EXPECT_EQ(coordinator.StateDigest(), history.digest);
}

TEST(ReplayTest, TheJournalOfRandomCommandsReplaysToTheSameState) {
  size_t journalled = 0;
  const uint64_t first = only_seed == 0 ? 1 : only_seed;
  const uint64_t last = only_seed == 0 ? kSeeds : only_seed;
  for (uint64_t seed = first; seed <= last && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("run again with --seed=", seed));
    const History history = RunRandomly(seed);
    CheckReplay(history);
    journalled += history.journal.size();
  }
  // The random walk must get somewhere: the machine accepts many of its commands.
  EXPECT_GT(journalled, (last - first + 1) * kCommands / 5);
}

}  // namespace
}  // namespace dp::core

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (!absl::ConsumePrefix(&argument, "--seed=")) continue;
    if (!absl::SimpleAtoi(argument, &dp::core::only_seed)) return 2;
  }
  return RUN_ALL_TESTS();
}
