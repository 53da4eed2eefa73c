#include "worker/engine/collectives/nccl/nccl_group.h"

#include <array>
#include <deque>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/hash_store.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/nccl/nccl_card.h"
#include "worker/engine/collectives/testing/fake_nccl.h"
#include "worker/engine/collectives/testing/group_conformance.h"

namespace dp::engine {
namespace {

using ::testing::HasSubstr;

NcclOptions Options(absl::Duration timeout = absl::Seconds(60)) {
  return {.group = {.timeout = timeout},
          .connect_timeout = absl::Seconds(60),
          .messages = true,
          .beat = absl::Milliseconds(50),
          .ask_ras = false};
}

Groups OpenOver(NcclApi& api, Store& store, int size, const NcclOptions& options) {
  Groups groups(size);
  std::vector<std::jthread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      auto group = ConnectNccl(api, store, r, size, options);
      ASSERT_TRUE(group.ok()) << group.status();
      groups[r] = *std::move(group);
    });
  threads.clear();
  return groups;
}

// The groups outlive this call and use the store, so each call's store stays for good.
Groups OpenFakeNccl(int size, const GroupOptions& options) {
  static FakeNccl nccl(FakeNccl::Anywhere);
  static std::deque<HashStore> stores;
  return OpenOver(nccl, stores.emplace_back(), size, Options(options.timeout));
}

class NcclGroupTest : public ::testing::Test {
 protected:
  Groups Open(int size, const NcclOptions& options = Options()) {
    return OpenOver(nccl_, store_, size, options);
  }
  // The unique id on a rank's card.
  std::string IdOf(int rank) {
    const auto card = store_.Get(absl::StrCat("nccl/", rank, "/arrived"), absl::ZeroDuration());
    return DecodeNcclCard(card.value()).value().id;
  }

  FakeNccl nccl_{FakeNccl::Anywhere};
  HashStore store_;
};

INSTANTIATE_TEST_SUITE_P(NcclGroup, GroupConformance,
                         ::testing::Combine(::testing::Values(Backend{
                                                .open = OpenFakeNccl,
                                                .has_limits_of_calls = false,
                                                .states_differences = false,
                                                .words_of_gone = "; remote process exited"}),
                                            ::testing::Range(1, 5)));

INSTANTIATE_TEST_SUITE_P(NcclGroup, MessageConformance,
                         ::testing::Combine(::testing::Values(Backend{.open = OpenFakeNccl}),
                                            ::testing::Range(1, 5)));

TEST_F(NcclGroupTest, AGroupWithoutMessagesSaysSo) {
  NcclOptions options = Options();
  options.messages = false;
  Groups groups = Open(2, options);
  int32_t value = 0;
  const absl::Status status = groups[0]->Send(absl::Span<int32_t>(&value, 1), 1)->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("without messages between two ranks"));
}

TEST_F(NcclGroupTest, TheUniqueIdOfRankZeroTravelsThroughTheStore) {
  Groups groups = Open(2);
  EXPECT_EQ(IdOf(0), std::string("id1\0binary", 10));
  EXPECT_EQ(IdOf(1), "");
}

TEST_F(NcclGroupTest, RanksThatShareAGpuAreNamedOnEveryRankAndNcclIsNotAsked) {
  nccl_.PutOnOneHost();
  const int devices[] = {0, 1, 0};
  std::array<absl::Status, 3> statuses;
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < 3; ++r)
      threads.emplace_back([&, r] {
        NcclOptions options = Options();
        options.device = devices[r];
        statuses[r] = ConnectNccl(nccl_, store_, r, 3, options).status();
      });
  }
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status, absl::FailedPreconditionError(
                          "ranks 0, 2 share the GPU gpu 0 of one host (device 0 of rank 0, device "
                          "0 of rank 2); give each rank a GPU of its own"));
  }
  EXPECT_EQ(nccl_.live(), 0);  // no communicator was made
}

TEST_F(NcclGroupTest, AsManyOperationsWaitAsTheCallerHasSaidAndOneMoreBreaksTheGroup) {
  NcclOptions options = Options();
  options.operations_max = 5000;
  float value = 0;
  const Groups groups = Open(2, options);
  const auto reduce = [&] {
    return groups[0]->AllReduce(absl::MakeSpan(&value, 1), ReduceOp::kSum);
  };
  std::vector<std::unique_ptr<Work>> waiting;  // for rank 1, which calls nothing
  for (int i = 0; i < 5000; ++i) waiting.push_back(reduce());
  EXPECT_FALSE(waiting.back()->done());
  const auto one_more = reduce();
  EXPECT_EQ(one_more->Wait().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(one_more->Wait().message()), HasSubstr("5000 operations are already"));
  EXPECT_EQ(waiting.front()->Wait().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(NcclGroupTest, LargeWorldsJoinByTheIdsOfSeveralRanks) {
  NcclOptions options = Options();
  options.ranks_per_id = 3;
  Groups groups = Open(7, options);  // ranks with different ids would not join
  for (int r = 0; r < 7; ++r)
    EXPECT_EQ(IdOf(r).empty(), r != 0 && r != 3 && r != 5) << "rank " << r;
}

TEST_F(NcclGroupTest, AWorldOfOneRankCallsNothing) {
  auto group = ConnectNccl(nccl_, store_, 0, 1, Options());
  ASSERT_TRUE(group.ok());
  std::vector<float> data{1.5f, 2.5f};
  ASSERT_TRUE((*group)->AllReduce(absl::MakeSpan(data), ReduceOp::kMean)->Wait().ok());
  EXPECT_THAT(data, ::testing::ElementsAre(1.5f, 2.5f));
  EXPECT_EQ(nccl_.calls(), 0);
}

TEST_F(NcclGroupTest, ConnectNamesTheRanksThatDidNotArrive) {
  NcclOptions options = Options();
  options.connect_timeout = absl::Milliseconds(100);
  auto group = ConnectNccl(nccl_, store_, 1, 3, options);
  EXPECT_EQ(group.status().message(), "connect: ranks 0, 2 did not arrive within 100ms");
}

TEST_F(NcclGroupTest, ConnectEndsWhenItIsAskedToStop) {
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  auto group = ConnectNccl(nccl_, store_, 0, 2, Options(), stop.get_token());
  EXPECT_EQ(group.status().code(), absl::StatusCode::kAborted);
}

TEST_F(NcclGroupTest, AnErrorOfTheCommunicatorEndsTheOperationUnderWay) {
  NcclOptions options = Options();
  options.beat = absl::Seconds(1);  // the peer has a multiple of it to say that it lives
  Groups groups = Open(2, options);
  std::vector<float> data(4);
  auto work = groups[0]->AllReduce(absl::MakeSpan(data), ReduceOp::kSum);
  nccl_.Fail(absl::UnavailableError("unhandled system error"));
  EXPECT_EQ(work->Wait(), absl::UnavailableError("all_reduce 1: unhandled system error"));
}

TEST_F(NcclGroupTest, AnErrorOfThisHostNeedsNoInquiry) {
  Groups groups = Open(2);
  std::vector<float> data(4);
  auto work = groups[0]->AllReduce(absl::MakeSpan(data), ReduceOp::kSum);
  nccl_.Fail(absl::InternalError("unhandled cuda error"));
  EXPECT_THAT(std::string(work->Wait().message()), HasSubstr("unhandled cuda error"));
}

TEST_F(NcclGroupTest, AGroupThatWasAbortedBreaksTheCommunicatorForItsPeersWhenItEnds) {
  Groups groups = Open(2);
  std::vector<float> theirs(4);
  auto work = groups[1]->AllReduce(absl::MakeSpan(theirs), ReduceOp::kSum);
  groups[0]->Abort(absl::UnavailableError("generation 2 is over"));
  groups[0].reset();
  EXPECT_THAT(std::string(work->Wait().message()), HasSubstr("remote process exited"));
}

TEST_F(NcclGroupTest, APeerThatWasAbortedIsNotBlamedForThoseThatAreGone) {
  Groups groups = Open(3);
  std::vector<float> theirs(4);
  auto work = groups[0]->AllReduce(absl::MakeSpan(theirs), ReduceOp::kSum);
  groups[2].reset();  // first: an abort alone would break the operation with nobody gone
  groups[1]->Abort(absl::UnavailableError("generation 2 is over"));
  EXPECT_EQ(work->Wait().message(), "all_reduce 1: rank 2 went away; remote process exited");
}

// The device is busy with what it was given before, and NCCL's abort waits for that.
TEST_F(NcclGroupTest, AnErrorDoesNotWaitForTheAbort) {
  std::vector<float> data(4);
  // Rank 2 does not call, so the operation is not done before it is aborted.
  Groups groups = Open(3, Options(absl::Milliseconds(500)));
  nccl_.HoldAborts();
  auto late = groups[0]->AllReduce(absl::MakeSpan(data), ReduceOp::kSum);
  EXPECT_EQ(late->Wait(), DidNotArrive("all_reduce 1", {1, 2}, absl::Milliseconds(500)));
  auto aborted = groups[1]->AllReduce(absl::MakeSpan(data), ReduceOp::kSum);
  groups[1]->Abort(absl::UnavailableError("generation 2 is over"));
  EXPECT_THAT(std::string(aborted->Wait().message()), HasSubstr("generation 2 is over"));
  EXPECT_EQ(nccl_.aborts(), 0);
  nccl_.ReleaseAborts();
  groups.clear();
  EXPECT_EQ(nccl_.aborts(), 3);
}

TEST_F(NcclGroupTest, NothingIsLeftOpenAfterSuccessOrFailure) {
  { Groups groups = Open(3); }
  EXPECT_EQ(nccl_.live(), 0);
  HashStore store;
  {
    Groups groups = OpenOver(nccl_, store, 2, Options(absl::Milliseconds(50)));
    std::vector<float> data(4);
    for (const char* how : {"late", "never begun"})
      ASSERT_FALSE(groups[0]->AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait().ok()) << how;
  }
  EXPECT_EQ(nccl_.live(), 0);
}

// Each rank computes on its own stream.
class NcclStreamsTest : public NcclGroupTest {
 protected:
  NcclStreamsTest() : groups_(2) {
    std::vector<std::jthread> threads;
    for (int r = 0; r < 2; ++r)
      threads.emplace_back([this, r] {
        NcclOptions options = Options();
        options.compute_stream = streams_[r];
        groups_[r] = *ConnectNccl(nccl_, store_, r, 2, options);
      });
  }
  ~NcclStreamsTest() override {
    groups_.clear();
    for (NcclApi::Stream stream : streams_) nccl_.FreeStream(stream);
  }

  std::array<NcclApi::Stream, 2> streams_{*nccl_.MakeStream(), *nccl_.MakeStream()};
  Groups groups_;
};

TEST_F(NcclStreamsTest, AnOperationBeginsBehindWhatComputesItsInput) {
  std::vector<float> mine(2, 1.0f), theirs(2, 1.0f);
  const auto backward = nccl_.Occupy(streams_[0]);
  auto work = groups_[0]->AllReduce(absl::MakeSpan(mine), ReduceOp::kSum);
  auto peer = groups_[1]->AllReduce(absl::MakeSpan(theirs), ReduceOp::kSum);
  ASSERT_TRUE(work->WaitOnStream().ok());  // the operation is on its stream
  ASSERT_TRUE(peer->WaitOnStream().ok());
  mine[0] = 5.0f;  // backward still writes its result
  nccl_.Finish(backward);
  ASSERT_TRUE(work->Wait().ok());
  EXPECT_THAT(mine, ::testing::ElementsAre(6.0f, 2.0f));
}

TEST_F(NcclStreamsTest, TheComputeStreamWaitsForTheResultAndTheHostDoesNot) {
  std::vector<float> mine(2, 1.0f), theirs(2, 1.0f);
  auto work = groups_[0]->AllReduce(absl::MakeSpan(mine), ReduceOp::kSum);
  ASSERT_TRUE(work->WaitOnStream().ok());  // the peer has not come, and the host goes on
  EXPECT_FALSE(work->done());
  const NcclApi::Event optimizer_may_run = *nccl_.Record(streams_[0]);
  EXPECT_FALSE(*nccl_.Passed(optimizer_may_run));
  ASSERT_TRUE(groups_[1]->AllReduce(absl::MakeSpan(theirs), ReduceOp::kSum)->Wait().ok());
  EXPECT_TRUE(*nccl_.Passed(optimizer_may_run));
  nccl_.FreeEvent(optimizer_may_run);
}

TEST_F(NcclStreamsTest, BucketsQueueOnTheDeviceBehindEachOther) {
  std::vector<float> a(1, 1.0f), b(1, 1.0f), theirs(1, 1.0f);
  auto first = groups_[0]->AllReduce(absl::MakeSpan(a), ReduceOp::kSum);
  auto second = groups_[0]->AllReduce(absl::MakeSpan(b), ReduceOp::kSum);
  ASSERT_TRUE(second->WaitOnStream().ok());  // on the stream before the first has ended
  EXPECT_FALSE(first->done());
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(groups_[1]->AllReduce(absl::MakeSpan(theirs), ReduceOp::kSum)->Wait().ok());
  ASSERT_TRUE(second->Wait().ok());
}

TEST_F(NcclStreamsTest, AnErrorShowsWithTheNextOperationOfAHostThatNeverWaited) {
  std::vector<float> mine(2, 1.0f);
  auto first = groups_[0]->AllReduce(absl::MakeSpan(mine), ReduceOp::kSum);
  ASSERT_TRUE(first->WaitOnStream().ok());
  groups_[1].reset();
  EXPECT_EQ(groups_[0]->AllReduce(absl::MakeSpan(mine), ReduceOp::kSum)->Wait().message(),
            "all_reduce 1: rank 1 went away; remote process exited");
}

}  // namespace
}  // namespace dp::engine
