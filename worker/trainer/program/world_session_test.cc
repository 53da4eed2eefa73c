#include "worker/trainer/program/world_session.h"

#include <deque>
#include <memory>

#include "base/testing/settable_clock.h"
#include "client/testing/in_process.h"
#include "dp/v1/worlds.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::trainer {
namespace {

using ::testing::HasSubstr;

// Answers each watch with the next prepared world. Each answer advances the clock by a second.
class FakeWorlds final : public v1::Worlds::Service {
 public:
  explicit FakeWorlds(SettableClock& clock) : clock_(clock) {}

  client::Connection& connection() { return *connection_; }

  grpc::Status Join(grpc::ServerContext*, const v1::JoinRequest* request,
                    v1::JoinResponse* response) override {
    joined_rank = request->rank();
    tells_first_step = request->tells_first_step();
    joined_for = request->members();
    response->mutable_world()->set_state(v1::WORLD_STATE_FORMING);
    response->mutable_world()->set_version(1);
    response->mutable_spec()->set_name("demo");
    return grpc::Status::OK;
  }

  grpc::Status Watch(grpc::ServerContext*, const v1::WatchWorldRequest* request,
                     v1::WatchWorldResponse* response) override {
    clock_.Advance(absl::Seconds(1));
    *response->mutable_world() = next.size() > 1 ? next.front() : next.back();
    if (next.size() > 1) next.pop_front();
    watched = *request;
    return grpc::Status::OK;
  }

  grpc::Status Accuse(grpc::ServerContext*, const v1::AccuseRequest* request,
                      v1::AccuseResponse*) override {
    accusation = *request;
    return grpc::Status::OK;
  }

  void Then(v1::WorldState state, uint64_t version, const char* reason) {
    v1::World& world = next.emplace_back();
    world.set_state(state);
    world.set_version(version);
    world.set_reason(reason);
  }

  std::deque<v1::World> next;
  int joined_rank = -1;
  bool tells_first_step = false;
  v1::AccuseRequest accusation;
  v1::MemberTable joined_for = v1::MEMBER_TABLE_UNSPECIFIED;
  v1::WatchWorldRequest watched;

 private:
  SettableClock& clock_;
  // Last, so that the calls end first.
  client::InProcess server_{static_cast<v1::Worlds::Service&>(*this)};
  const std::unique_ptr<client::Connection> connection_ = server_.Connect();
};

class WorldSessionTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(session_.Join(absl::Seconds(10)).ok()); }

  SettableClock clock_;
  FakeWorlds worlds_{clock_};
  client::Pause pause_;
  const Environment environment_{.job = JobId(7), .generation = Generation(1), .rank = 2};
  WorldSession session_{worlds_.connection(), pause_, environment_, clock_};
};

TEST_F(WorldSessionTest, JoiningTellsTheRankAndBringsTheJob) {
  EXPECT_EQ(worlds_.joined_rank, 2);
  EXPECT_EQ(session_.spec().name(), "demo");
  EXPECT_FALSE(worlds_.tells_first_step);
}

TEST_F(WorldSessionTest, Rank0AnnouncesThatItTellsOfTheFirstStep) {
  const Environment rank0{.job = JobId(7), .generation = Generation(1), .rank = 0};
  WorldSession session(worlds_.connection(), pause_, rank0, clock_);
  ASSERT_TRUE(session.Join(absl::Seconds(10)).ok());
  EXPECT_TRUE(worlds_.tells_first_step);
}

TEST_F(WorldSessionTest, WatchesOnFromTheLastVersionUntilSealed) {
  worlds_.Then(v1::WORLD_STATE_FORMING, 5, "waits for rank 3");
  worlds_.Then(v1::WORLD_STATE_SEALED, 6, "");
  EXPECT_TRUE(session_.AwaitSealed(absl::Minutes(1)).ok());
  EXPECT_EQ(worlds_.watched.since(), 5u);
}

TEST_F(WorldSessionTest, AsksForItsOwnGeneration) {
  worlds_.Then(v1::WORLD_STATE_SEALED, 5, "");
  ASSERT_TRUE(session_.AwaitSealed(absl::Minutes(1)).ok());
  EXPECT_EQ(worlds_.watched.generation(), 1u);
}

TEST_F(WorldSessionTest, OnlyRanksThatMayShareMemoryAskForTheMemberTable) {
  for (const bool small : {true, false}) {
    for (const bool on_gpu : {true, false}) {
      const Environment environment{.job = JobId(7),
                                    .generation = Generation(1),
                                    .rank = 2,
                                    .world_size = small ? 128 : 129,
                                    .on_gpu = on_gpu};
      WorldSession session(worlds_.connection(), pause_, environment, clock_);
      ASSERT_TRUE(session.Join(absl::Seconds(10)).ok());
      worlds_.Then(v1::WORLD_STATE_SEALED, 5, "");
      ASSERT_TRUE(session.AwaitSealed(absl::Minutes(1)).ok());
      const auto table = small && !on_gpu ? v1::MEMBER_TABLE_WHOLE : v1::MEMBER_TABLE_NONE;
      EXPECT_EQ(worlds_.joined_for, table);
      EXPECT_EQ(worlds_.watched.members(), table);
    }
  }
}

TEST_F(WorldSessionTest, RanksOfSeveralWorkersAreNotOnOne) {
  EXPECT_FALSE(session_.on_one_worker());
  worlds_.Then(v1::WORLD_STATE_SEALED, 5, "");
  for (const char* worker : {"a", "a", "b"}) worlds_.next.back().add_members()->set_worker(worker);
  ASSERT_TRUE(session_.AwaitSealed(absl::Minutes(1)).ok());
  EXPECT_FALSE(session_.on_one_worker());
}

TEST_F(WorldSessionTest, RanksOfOneWorkerAreOnOne) {
  worlds_.Then(v1::WORLD_STATE_SEALED, 5, "");
  for (int rank : {0, 1}) {
    v1::Member* member = worlds_.next.back().add_members();
    member->set_rank(rank);
    member->set_worker("a");
  }
  ASSERT_TRUE(session_.AwaitSealed(absl::Minutes(1)).ok());
  EXPECT_TRUE(session_.on_one_worker());
}

TEST_F(WorldSessionTest, AWorldThatIsNotSealedInTimeNamesWhoIsMissing) {
  worlds_.Then(v1::WORLD_STATE_FORMING, 5, "waits for rank 3 on host-b");
  const absl::Status status = session_.AwaitSealed(absl::Seconds(3));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("rank 3 on host-b"));
}

TEST_F(WorldSessionTest, AClosedWorldEndsTheWaitWithItsReason) {
  worlds_.Then(v1::WORLD_STATE_CLOSED, 5, "rank 0 was killed");
  EXPECT_THAT(session_.AwaitSealed(absl::Minutes(1)).message(), HasSubstr("rank 0 was killed"));
  EXPECT_EQ(*session_.AwaitClosed(absl::Minutes(1)), "rank 0 was killed");
}

TEST_F(WorldSessionTest, ALaterGenerationsWorldIsNotThisRanks) {
  worlds_.Then(v1::WORLD_STATE_SEALED, 5, "");
  worlds_.next.back().set_generation(2);
  EXPECT_THAT(session_.AwaitSealed(absl::Minutes(1)).message(),
              HasSubstr("generation 2 has begun"));
}

TEST_F(WorldSessionTest, AccusingNamesThisRankAndThoseThatItWaitedFor) {
  const absl::Status error = absl::DeadlineExceededError("all_reduce 7: rank 1 did not arrive");
  EXPECT_TRUE(session_.Accuse({1, 3}, error, /*insist=*/true, absl::Seconds(10)).ok());
  EXPECT_THAT(worlds_.accusation.ShortDebugString(),
              "job: 7 generation: 1 rank: 2 missing: 1 missing: 3 "
              "error: \"all_reduce 7: rank 1 did not arrive\" insist: true");
}

}  // namespace
}  // namespace dp::trainer
