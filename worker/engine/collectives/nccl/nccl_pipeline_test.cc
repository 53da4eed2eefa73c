// One rank's operations, on the test's own clock. The tests ask how long they may take while the
// device computes, what peers hear of a failure, and how often the rank looks.

#include <array>

#include "base/testing/settable_clock.h"
#include "gtest/gtest.h"
#include "store/hash_store.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/nccl/nccl_pipeline.h"
#include "worker/engine/collectives/testing/fake_nccl.h"

namespace dp::engine {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(30);

// Rank 0 of two; rank 1 never comes.
class NcclPipelineTest : public ::testing::Test {
 protected:
  ~NcclPipelineTest() override {
    pipeline_.reset();
    nccl_.FreeStream(compute_);
    nccl_.FreeStream(stream_);
    nccl_.Abort(other_);
  }

  NcclOperations::Handle Push() {
    auto operation = std::make_shared<NcclOperation>();
    operation->number = 1;
    operation->name = "all_reduce 1";
    operation->called = clock_.Now();
    operation->means.computed = RecordNcclEvent(nccl_, compute_);
    operation->means.enqueue = [this](NcclApi::Communicator communicator) {
      return nccl_.Give(communicator, SumOf(absl::MakeSpan(data_)), stream_);
    };
    operations_.Push(operation);
    return operation;
  }

  void Pass(absl::Duration time) {
    constexpr absl::Duration kRound = absl::Milliseconds(500);
    for (absl::Duration passed; passed < time; passed += kRound) {
      pipeline_->Step();
      roll_call_.Step();
      clock_.Advance(kRound);
    }
  }

  // This rank's report in the store.
  absl::optional<Presence> Report() {
    roll_call_.Step();
    const auto text = store_.Get("nccl/0/presence", absl::ZeroDuration());
    return text.ok() ? PresenceFromText(*text) : absl::nullopt;
  }

  SettableClock clock_;
  FakeNccl nccl_{FakeNccl::Anywhere};
  HashStore store_{{}, clock_};
  const SuspicionTimes times_ = SuspicionTimesFor(kTimeout, absl::Seconds(1));
  NcclOperations operations_{clock_};
  RollCall roll_call_{store_,
                      /*rank=*/0,
                      /*size=*/2,
                      {.prefix = "nccl", .interval = times_.interval, .patience = times_.patience},
                      clock_};
  const NcclApi::Stream stream_ = *nccl_.MakeStream();
  const NcclApi::Stream compute_ = *nccl_.MakeStream();
  const std::string id_ = "id";
  const NcclApi::Communicator mine_ = *nccl_.Join({&id_, 1}, 0, 2, {});
  const NcclApi::Communicator other_ = *nccl_.Join({&id_, 1}, 1, 2, {});
  std::unique_ptr<NcclPipeline> pipeline_ =
      std::make_unique<NcclPipeline>(NcclPipeline::Parts{.api = nccl_,
                                                         .communicator = mine_,
                                                         .stream = stream_,
                                                         .operations = operations_,
                                                         .roll_call = roll_call_,
                                                         .times = times_,
                                                         .clock = clock_,
                                                         .abort = [this](void* communicator) {
                                                           told_before_abort_ = Report();
                                                           nccl_.Abort(communicator);
                                                         }});
  std::array<float, 2> data_{};
  absl::optional<Presence> told_before_abort_;
};

TEST_F(NcclPipelineTest, ARankThatComputesForLongWaitsForNobodyUntilItHasComputed) {
  const auto backward = nccl_.Occupy(compute_);
  const auto operation = Push();
  Pass(10 * kTimeout);
  EXPECT_FALSE(operations_.ended(*operation));
  nccl_.Finish(backward);
  Pass(kTimeout / 2);
  EXPECT_FALSE(operations_.ended(*operation));
  Pass(kTimeout);
  ASSERT_TRUE(operations_.ended(*operation));
  const absl::Status status = operations_.Wait(*operation);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_EQ(MissingRanks(status), std::vector<int>{1});
}

// NCCL takes some 40 us to give an operation to the stream, in a thread of its own. A later look
// would cost each bucket of a step as much again.
TEST_F(NcclPipelineTest, ItLooksOftenWhileAnOperationIsBeingGivenAndNotForLong) {
  nccl_.SetBusy(true);
  Push();
  for (const absl::Time end = clock_.Now() + absl::Microseconds(300); clock_.Now() < end;) {
    const absl::Duration pause = pipeline_->Step();
    EXPECT_LE(pause, absl::Microseconds(5));
    clock_.Advance(pause);
  }
  EXPECT_EQ(pipeline_->Step(), absl::Microseconds(50));
  nccl_.SetBusy(false);
  EXPECT_EQ(pipeline_->Step(), absl::Microseconds(50));  // given: it awaits the peer
}

TEST_F(NcclPipelineTest, PeersHearThatARankGivesUpBeforeItsAbort) {
  Push();
  Pass(kTimeout + absl::Seconds(1));
  ASSERT_TRUE(told_before_abort_.has_value());
  EXPECT_EQ(told_before_abort_->over, Over::kOutOfTime);
}

}  // namespace
}  // namespace dp::engine
