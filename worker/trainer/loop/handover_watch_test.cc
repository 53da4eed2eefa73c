#include "worker/trainer/loop/handover_watch.h"

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "client/testing/in_process.h"
#include "dp/v1/worlds.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::trainer {
namespace {

using testing::ElementsAre;

constexpr absl::Duration kPatience = absl::Seconds(20);

// Answers each watch with the next world of the script. Then blocks until LetGo, like a watch in
// which nothing happens.
class ScriptedWorlds final : public v1::Worlds::Service {
 public:
  explicit ScriptedWorlds(std::vector<absl::StatusOr<v1::WatchWorldResponse>> worlds)
      : worlds_(std::move(worlds)) {}

  client::Connection& connection() { return *connection_; }

  grpc::Status Watch(grpc::ServerContext*, const v1::WatchWorldRequest* request,
                     v1::WatchWorldResponse* response) override {
    EXPECT_EQ(request->generation(), 2u);
    EXPECT_EQ(request->members(), v1::MEMBER_TABLE_NONE);
    MutexLock lock(mu_);
    asked_.push_back(request->since());
    if (next_ == worlds_.size()) {
      at_end_ = true;
      changed_.NotifyAll();
      while (!let_go_) changed_.Wait(mu_);
      return grpc::Status::CANCELLED;
    }
    return client::ToGrpc(worlds_[next_++], response);
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
    connection_->CancelAll();
    MutexLock lock(mu_);
    let_go_ = true;
    changed_.NotifyAll();
  }

 private:
  const std::vector<absl::StatusOr<v1::WatchWorldResponse>> worlds_;
  mutable Mutex mu_;
  CondVar changed_;
  std::vector<uint64_t> asked_ DP_GUARDED_BY(mu_);
  size_t next_ DP_GUARDED_BY(mu_) = 0;
  bool at_end_ DP_GUARDED_BY(mu_) = false;
  bool let_go_ DP_GUARDED_BY(mu_) = false;
  // Last, so that the calls end first.
  client::InProcess server_{static_cast<v1::Worlds::Service&>(*this)};
  const std::unique_ptr<client::Connection> connection_ = server_.Connect();
};

v1::WatchWorldResponse AWorld(uint64_t version, const std::string& handover = "") {
  v1::WatchWorldResponse response;
  v1::World& world = *response.mutable_world();
  world.set_generation(2);
  world.set_version(version);
  world.set_handover(handover);
  return response;
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
  HandoverWatch watch(worlds.connection(), kEnvironment, Clock::System());
  EXPECT_TRUE(worlds.AwaitEnd());
  EXPECT_FALSE(watch.asked());
  EXPECT_THAT(worlds.asked(), ElementsAre(0, 1, 2));
  worlds.LetGo();
}

TEST(HandoverWatchTest, LearnsThatTheRanksAreAskedToLeaveThroughAnAbsence) {
  ScriptedWorlds worlds({AWorld(1), absl::UnavailableError("away"), AWorld(5, "node1 is drained")});
  HandoverWatch watch(worlds.connection(), kEnvironment, Clock::System());
  EXPECT_TRUE(AwaitAsked(watch));
  EXPECT_THAT(worlds.asked(), ElementsAre(0, 1, 1));
  worlds.LetGo();
}

}  // namespace
}  // namespace dp::trainer
