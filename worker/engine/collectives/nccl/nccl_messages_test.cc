#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/hash_store.h"
#include "worker/engine/collectives/nccl/nccl_group.h"
#include "worker/engine/collectives/testing/fake_nccl.h"
#include "worker/engine/collectives/testing/group_conformance.h"

// Messages between two GPUs, beside what MessageConformance says of every backend.

namespace dp::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kSize = 3;

// Ranks that each compute on a stream of their own.
class NcclMessagesTest : public ::testing::Test {
 protected:
  ~NcclMessagesTest() override {
    groups_.clear();
    for (NcclApi::Stream stream : streams_) nccl_.FreeStream(stream);
    EXPECT_EQ(nccl_.live(), 0);
  }

  void Open(absl::Duration timeout = absl::Seconds(60)) {
    std::vector<std::jthread> threads;
    for (int r = 0; r < kSize; ++r)
      threads.emplace_back([&, r] {
        auto group = ConnectNccl(nccl_, store_, r, kSize,
                                 {.group = {.timeout = timeout},
                                  .connect_timeout = absl::Seconds(60),
                                  .compute_stream = streams_[r],
                                  .messages = true,
                                  .beat = absl::Milliseconds(50),
                                  .ask_ras = false});
        ASSERT_TRUE(group.ok()) << group.status();
        groups_[r] = *std::move(group);
      });
  }

  std::unique_ptr<Work> Send(int from, int to, const std::vector<float>& data, int tag = 0) {
    return groups_[from]->Send(absl::MakeConstSpan(data), to, tag);
  }
  std::unique_ptr<Work> Receive(int by, int from, std::vector<float>& data, int tag = 0) {
    return groups_[by]->Receive(absl::MakeSpan(data), from, tag);
  }
  // One message that arrives.
  void Pass(int from, int to) {
    const std::vector<float> sent{1, 2};
    std::vector<float> got(2);
    const auto send = Send(from, to, sent), receive = Receive(to, from, got);
    ASSERT_EQ(receive->Wait(), absl::OkStatus());
    ASSERT_EQ(send->Wait(), absl::OkStatus());
    EXPECT_EQ(got, sent);
  }

  FakeNccl nccl_{FakeNccl::Anywhere};
  HashStore store_;
  std::array<NcclApi::Stream, kSize> streams_{*nccl_.MakeStream(), *nccl_.MakeStream(),
                                              *nccl_.MakeStream()};
  Groups groups_{kSize};
};

TEST_F(NcclMessagesTest, AMessageBeginsBehindWhatComputesItsDataAndTheHostsGoOn) {
  Open();
  std::vector<float> sent{1}, got{0};
  const auto backward = nccl_.Occupy(streams_[0]);
  const auto send = Send(0, 1, sent), receive = Receive(1, 0, got);
  ASSERT_TRUE(send->WaitOnStream().ok());  // on its stream, not done
  ASSERT_TRUE(receive->WaitOnStream().ok());
  sent[0] = 5;  // backward still writes its result
  EXPECT_FALSE(receive->done());
  const NcclApi::Event update = *nccl_.Record(streams_[1]);
  EXPECT_FALSE(*nccl_.Passed(update));  // waits for the message
  nccl_.Finish(backward);
  EXPECT_EQ(receive->Wait(), absl::OkStatus());
  EXPECT_EQ(send->Wait(), absl::OkStatus());
  EXPECT_EQ(got[0], 5);
  EXPECT_TRUE(*nccl_.Passed(update));
  nccl_.FreeEvent(update);
}

TEST_F(NcclMessagesTest, ADirectionDoesNotWaitForTheOtherNorForTheCollectives) {
  Open();
  std::vector<float> late{1}, got_late{0}, back{3}, got_back{0}, sum{1};
  const auto heard = Receive(0, 1, got_back);
  const auto reduce = groups_[1]->AllReduce(absl::MakeSpan(sum), ReduceOp::kSum);
  const auto computing = nccl_.Occupy(streams_[0]);
  const auto send = Send(0, 1, late), receive = Receive(1, 0, got_late);
  ASSERT_TRUE(send->WaitOnStream().ok());  // on its stream, behind rank 0's computation
  const auto answer = Send(1, 0, back);
  EXPECT_EQ(heard->Wait(), absl::OkStatus());
  EXPECT_THAT(got_back, ElementsAre(3));
  Pass(1, 2);
  Pass(2, 1);
  EXPECT_FALSE(receive->done());
  nccl_.Finish(computing);
  EXPECT_EQ(receive->Wait(), absl::OkStatus());
  EXPECT_FALSE(reduce->done());
}

TEST_F(NcclMessagesTest, ARingThatSendsBeforeItReceivesGoesRound) {
  Open();
  constexpr int kMessages = 20;
  OnEveryRank(groups_, [&](Group& group) {
    const int next = (group.rank() + 1) % kSize, previous = (group.rank() + kSize - 1) % kSize;
    std::vector<std::vector<float>> sent, got(kMessages);
    std::vector<std::unique_ptr<Work>> works;
    for (int i = 0; i < kMessages; ++i) sent.emplace_back(i, static_cast<float>(group.rank()));
    for (const auto& data : sent) works.push_back(group.Send(absl::MakeConstSpan(data), next));
    for (int i = 0; i < kMessages; ++i) {
      got[i].resize(i);
      works.push_back(group.Receive(absl::MakeSpan(got[i]), previous));
    }
    for (auto& work : works) ASSERT_EQ(work->Wait(), absl::OkStatus());
    for (int i = 0; i < kMessages; ++i)
      ASSERT_EQ(got[i], std::vector<float>(i, static_cast<float>(previous)));
  });
}

TEST_F(NcclMessagesTest, ADirectionMakesOneCommunicatorWhenItsFirstBytesMeet) {
  Open();
  const int idle = nccl_.live();
  std::vector<float> nothing;
  const auto send = Send(0, 1, nothing), receive = Receive(1, 0, nothing);
  ASSERT_EQ(send->Wait(), absl::OkStatus());
  ASSERT_EQ(receive->Wait(), absl::OkStatus());
  EXPECT_EQ(nccl_.live(), idle);
  for (int i = 0; i < 3; ++i) Pass(0, 1);
  EXPECT_EQ(nccl_.live(), idle + 4);  // a communicator and a stream on both
  Pass(1, 0);
  EXPECT_EQ(nccl_.live(), idle + 8);
}

TEST_F(NcclMessagesTest, ARankThatComputesHasNoTimeLimitAndItsPeerHas) {
  Open(absl::Milliseconds(200));
  std::vector<float> sent{1}, got{0};
  const auto computing = nccl_.Occupy(streams_[0]);
  const auto send = Send(0, 1, sent);  // called first, so its limit would pass first
  const auto receive = Receive(1, 0, got, 0);
  const absl::Status late = receive->Wait();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(late.message(), "recv from rank 0, tag 0: rank 0 did not arrive within 200ms");
  const absl::Status left_alone = send->Wait();
  EXPECT_EQ(left_alone.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(left_alone.message()),
              HasSubstr("send to rank 1, tag 0: rank 1 went away"));
  nccl_.Finish(computing);
}

TEST_F(NcclMessagesTest, ATimeLimitBeginsWhenTheDeviceHasReachedTheMessage) {
  Open(absl::Milliseconds(100));
  std::vector<float> got{0};
  const auto computing = nccl_.Occupy(streams_[0]);
  const auto receive = Receive(0, 1, got);
  // Rank 2 has no work before its receive, so its limit passes.
  std::vector<float> others{0};
  EXPECT_FALSE(Receive(2, 1, others)->Wait().ok());
  EXPECT_FALSE(receive->done());
  nccl_.Finish(computing);
  EXPECT_EQ(receive->Wait().message(),
            "recv from rank 1, tag 0: rank 1 did not arrive within 100ms");
}

TEST_F(NcclMessagesTest, APeerThatEndsDuringAMessageIsNamed) {
  Open();
  std::vector<float> sent{1}, got{0};
  const auto computing = nccl_.Occupy(streams_[0]);
  const auto send = Send(0, 1, sent), receive = Receive(1, 0, got);
  ASSERT_TRUE(send->WaitOnStream().ok());
  ASSERT_TRUE(receive->WaitOnStream().ok());
  groups_[0].reset();
  EXPECT_EQ(receive->Wait().message(),
            "recv from rank 0, tag 0: rank 0 went away; remote process exited");
  nccl_.Finish(computing);
}

TEST_F(NcclMessagesTest, APeerThatEndsIsNamedThoughNcclSaysNothing) {
  Open();
  nccl_.HideErrors();
  std::vector<float> sent{1}, got{0};
  const auto computing = nccl_.Occupy(streams_[0]);
  const auto send = Send(0, 1, sent), receive = Receive(1, 0, got);
  ASSERT_TRUE(send->WaitOnStream().ok());
  ASSERT_TRUE(receive->WaitOnStream().ok());
  groups_[0].reset();
  const absl::Status status = receive->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "recv from rank 0, tag 0: rank 0 went away");
  nccl_.Finish(computing);
}

TEST_F(NcclMessagesTest, AnErrorOfTheHostNamesTheMessage) {
  Open();
  std::vector<float> sent{1}, got{0};
  const auto computing = nccl_.Occupy(streams_[0]);
  const auto send = Send(0, 1, sent), receive = Receive(1, 0, got);
  ASSERT_TRUE(receive->WaitOnStream().ok());
  nccl_.Fail(absl::InternalError("unhandled cuda error"));
  EXPECT_EQ(receive->Wait(), absl::InternalError("recv from rank 0, tag 0: unhandled cuda error"));
  nccl_.Finish(computing);
}

TEST_F(NcclMessagesTest, AFailedCollectiveFailsMessagesInFlightAndLater) {
  Open();
  std::vector<float> got{0};
  const auto receive = Receive(0, 1, got);
  groups_[2].reset();
  std::vector<float> data{1};
  const absl::Status status = groups_[0]->AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait();
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 2 went away"));
  EXPECT_EQ(receive->Wait(), status);
  EXPECT_EQ(Send(0, 1, data)->Wait(), status);
}

TEST_F(NcclMessagesTest, AbortEndsAMessageOnTheDevice) {
  Open();
  std::vector<float> sent{1}, got{0};
  const auto computing = nccl_.Occupy(streams_[0]);
  const auto send = Send(0, 1, sent), receive = Receive(1, 0, got);
  ASSERT_TRUE(send->WaitOnStream().ok());
  ASSERT_TRUE(receive->WaitOnStream().ok());
  groups_[1]->Abort(absl::UnavailableError("generation 3 is over"));
  EXPECT_EQ(receive->Wait(),
            absl::AbortedError("recv from rank 0, tag 0 was aborted: generation 3 is over"));
  EXPECT_EQ(Receive(1, 2, got)->Wait().code(), absl::StatusCode::kAborted);
  nccl_.Finish(computing);
}

TEST_F(NcclMessagesTest, LeavingWaitsForMessagesAndEndsTheirCommunicatorsInGoodOrder) {
  Open();
  std::vector<float> sent{1}, got{0};
  const auto computing = nccl_.Occupy(streams_[0]);
  const auto send = Send(0, 1, sent), receive = Receive(1, 0, got);
  ASSERT_TRUE(send->WaitOnStream().ok());  // as the library does before it leaves
  ASSERT_TRUE(receive->WaitOnStream().ok());
  std::vector<std::unique_ptr<Work>> leaving;
  for (auto& group : groups_) leaving.push_back(group->Leave());
  nccl_.Finish(computing);
  for (auto& work : leaving) EXPECT_EQ(work->Wait(), absl::OkStatus());
  EXPECT_EQ(send->Wait(), absl::OkStatus());
  EXPECT_EQ(receive->Wait(), absl::OkStatus());
  EXPECT_GE(leaving[0]->times().ended, send->times().ended);
  EXPECT_GE(leaving[1]->times().ended, receive->times().ended);
  groups_.clear();
  EXPECT_EQ(nccl_.aborts(), 0);
}

}  // namespace
}  // namespace dp::engine
