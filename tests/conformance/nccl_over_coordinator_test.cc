#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/connection.h"
#include "client/grpc_store.h"
#include "gtest/gtest.h"
#include "tests/conformance/coordinator_with_job.h"
#include "worker/engine/collectives/nccl/nccl_group.h"
#include "worker/engine/collectives/testing/fake_nccl.h"

// NCCL ranks find each other, and notice a lost peer, through the real coordinator.

namespace dp {
namespace {

constexpr int kRanks = 4;

// One rank with its own connection and store, like a process.
struct Rank {
  Rank(engine::FakeNccl& nccl, const CoordinatorWithJob& coordinator, int rank)
      : connection(coordinator.address(), client::Credentials::Insecure()),
        store(connection, pause, {coordinator.job(), Generation(1)}) {
    auto opened = engine::ConnectNccl(nccl, store, rank, kRanks,
                                      {.group = {.timeout = absl::Seconds(60)},
                                       .connect_timeout = absl::Seconds(60),
                                       .ranks_per_id = 2,
                                       .beat = absl::Milliseconds(200),
                                       .ask_ras = false});
    EXPECT_TRUE(opened.ok()) << opened.status();
    if (opened.ok()) group = *std::move(opened);
  }

  absl::Status AllReduce() {
    std::vector<float> data(3, 1.0f);
    return group->AllReduce(absl::MakeSpan(data), engine::ReduceOp::kMean)->Wait();
  }

  client::Connection connection;
  client::Pause pause;
  client::GrpcStore store;
  std::unique_ptr<engine::Group> group;
};

class NcclOverCoordinatorTest : public ::testing::Test {
 protected:
  NcclOverCoordinatorTest() : ranks_(kRanks) {
    OnRanks([this](int r) { ranks_[r] = std::make_unique<Rank>(nccl_, coordinator_, r); });
  }

  template <typename Body>
  static void OnRanks(Body body) {
    std::vector<std::jthread> threads;
    for (int r = 0; r < kRanks; ++r) threads.emplace_back([body, r] { body(r); });
  }

  CoordinatorWithJob coordinator_;
  engine::FakeNccl nccl_{engine::FakeNccl::Anywhere};
  std::vector<std::unique_ptr<Rank>> ranks_;
};

TEST_F(NcclOverCoordinatorTest, TheIdsOfTwoRanksReachAllOfThem) {
  OnRanks([this](int r) { EXPECT_EQ(ranks_[r]->AllReduce(), absl::OkStatus()); });
  EXPECT_FALSE(ranks_[1]->store.Get("nccl/2/arrived", absl::ZeroDuration())->empty());
}

TEST_F(NcclOverCoordinatorTest, ThoseThatLiveNameTheOneThatIsGone) {
  ranks_[2]->group.reset();
  OnRanks([this](int r) {
    if (r == 2) return;
    EXPECT_EQ(ranks_[r]->AllReduce().message(),
              "all_reduce 1: rank 2 went away; remote process exited");
  });
}

}  // namespace
}  // namespace dp
