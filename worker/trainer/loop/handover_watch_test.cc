#include "worker/trainer/loop/handover_watch.h"

#include <vector>

#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::trainer {
namespace {

using testing::ElementsAre;

constexpr absl::Duration kPatience = absl::Seconds(20);

// Answers each watch with the next world of the script. Then blocks until LetGo, like a watch in
// which nothing happens.
class ScriptedWorlds final : public client::WorldsConnection {
 public:
  explicit ScriptedWorlds(std::vector<absl::StatusOr<v1::World>> worlds)
      : worlds_(std::move(worlds)) {}

  absl::StatusOr<v1::WatchWorldResponse> WatchWorld(const v1::WatchWorldRequest& request,
                                                    absl::Duration) override {
    EXPECT_EQ(request.generation(), 2u);
    EXPECT_EQ(request.members(), v1::MEMBER_TABLE_NONE);
    MutexLock lock(mu_);
    asked_.push_back(request.since());
    if (next_ == worlds_.size()) {
      at_end_ = true;
      changed_.NotifyAll();
      while (!let_go_) changed_.Wait(mu_);
      return absl::CancelledError("");
    }
    const absl::StatusOr<v1::World>& world = worlds_[next_++];
    if (!world.ok()) return world.status();
    v1::WatchWorldResponse response;
    *response.mutable_world() = *world;
    return response;
  }

  // Waits until the watch has consumed every world and asks again; false on a timeout.
  bool AwaitEnd() {
    MutexLock lock(mu_);
    const absl::Time deadline = absl::Now() + kPatience;
    while (!at_end_ && absl::Now() < deadline) changed_.WaitFor(mu_, deadline - absl::Now());
    return at_end_;
  }
  // `since` of each watch request.
  std::vector<uint64_t> asked() const {
    MutexLock lock(mu_);
    return asked_;
  }
  void LetGo() {
    MutexLock lock(mu_);
    let_go_ = true;
    changed_.NotifyAll();
  }

  absl::StatusOr<v1::JoinResponse> Join(const v1::JoinRequest&, absl::Duration) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::CompleteFirstStepResponse> CompleteFirstStep(
      const v1::CompleteFirstStepRequest&, absl::Duration) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::AccuseResponse> Accuse(const v1::AccuseRequest&, absl::Duration) override {
    return absl::UnimplementedError("");
  }

 private:
  const std::vector<absl::StatusOr<v1::World>> worlds_;
  mutable Mutex mu_;
  CondVar changed_;
  std::vector<uint64_t> asked_ DP_GUARDED_BY(mu_);
  size_t next_ DP_GUARDED_BY(mu_) = 0;
  bool at_end_ DP_GUARDED_BY(mu_) = false;
  bool let_go_ DP_GUARDED_BY(mu_) = false;
};

v1::World AWorld(uint64_t version, const std::string& handover = "") {
  v1::World world;
  world.set_generation(2);
  world.set_version(version);
  world.set_handover(handover);
  return world;
}

const Environment kEnvironment = {.job = JobId(7), .generation = Generation(2)};

// Whether the watch sees the request before the timeout.
bool AwaitAsked(const HandoverWatch& watch) {
  const absl::Time deadline = absl::Now() + kPatience;
  while (!watch.asked() && absl::Now() < deadline) std::this_thread::yield();
  return watch.asked();
}

TEST(HandoverWatchTest, IsNotAskedWhileTheWorldDoesNotSaySo) {
  ScriptedWorlds worlds({AWorld(1), AWorld(2)});
  HandoverWatch watch(worlds, kEnvironment, Clock::System());
  EXPECT_TRUE(worlds.AwaitEnd());
  EXPECT_FALSE(watch.asked());
  EXPECT_THAT(worlds.asked(), ElementsAre(0, 1, 2));
  worlds.LetGo();
}

TEST(HandoverWatchTest, LearnsThatTheRanksAreAskedToLeaveThroughAnAbsence) {
  ScriptedWorlds worlds({AWorld(1), absl::UnavailableError("away"), AWorld(5, "node1 is drained")});
  HandoverWatch watch(worlds, kEnvironment, Clock::System());
  EXPECT_TRUE(AwaitAsked(watch));
  EXPECT_THAT(worlds.asked(), ElementsAre(0, 1, 1));
  worlds.LetGo();
}

}  // namespace
}  // namespace dp::trainer
