#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dp/ddp.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/ddp/uneven_inputs.h"
#include "worker/library/testing/listed_module.h"
#include "worker/library/testing/rank_threads.h"
#include "worker/library/testing/thrown.h"

// Ranks with unequal numbers of batches.

namespace dp::distributed {
namespace {

using library::ErrorOf;
using library::ListedModule;
using library::OnRanks;
using library::Presence;
using library::Round;
using library::RoundOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A batch: the gradient is 1 everywhere, and the weights move by it.
void Train(DistributedDataParallel& ddp, ListedModule& module, int batches) {
  for (int batch = 0; batch < batches; ++batch) {
    ddp.zero_grad();
    ddp.begin_forward();
    for (const size_t p : {1, 0}) {
      module.Add(p, 1);
      ddp.gradient_ready(p);
    }
    ddp.finish_backward();
    for (const size_t p : {0, 1}) module.values[p].values[0] -= module.gradients[p][0];
  }
}

ListedModule TwoWeights() { return ListedModule({{"a", {10}}, {"b", {20}}}, {{"seen", {0}}}); }

TEST(JoinTest, RanksWithoutBatchesCountAsZerosAndTakeTheWeights) {
  OnRanks(3, "auto", [](const ProcessGroup& group) {
    ListedModule module = TwoWeights();
    DistributedDataParallel ddp(module, {.process_group = group});
    ddp.join([&] {
      Train(ddp, module, 1 + group.rank());
      module.running[0].values[0] = float(100 + group.rank());
    });
    // All ranks train, then two of three, then one.
    EXPECT_FLOAT_EQ(module.values[0].values[0], 10 - 1 - 2.0f / 3 - 1.0f / 3);
    EXPECT_FLOAT_EQ(module.values[1].values[0], 20 - 2);
    EXPECT_EQ(module.running[0].values[0], 102);  // of the rank that trained longest
    module.running[0].values[0] = float(200 + group.rank());
    Train(ddp, module, 1);  // as before it
    EXPECT_EQ(module.running[0].values[0], 200);
    EXPECT_FLOAT_EQ(module.values[1].values[0], 20 - 3);
  });
}

TEST(JoinTest, EveryOptionHasItsDefault) {
  const JoinOptions options;
  EXPECT_TRUE(options.divide_by_initial_world_size);
  EXPECT_FALSE(options.throw_on_early_termination);
}

TEST(JoinTest, TheMeanCanBeOverRanksThatTrain) {
  OnRanks(2, "auto", [](const ProcessGroup& group) {
    ListedModule module = TwoWeights();
    DistributedDataParallel ddp(module, {.process_group = group});
    ddp.join([&] { Train(ddp, module, group.rank() == 0 ? 3 : 1); },
             {.divide_by_initial_world_size = false});
    EXPECT_FLOAT_EQ(module.values[0].values[0], 10 - 3);
  });
}

TEST(JoinTest, ARankMayHaveNoBatchAtAll) {
  OnRanks(2, "auto", [](const ProcessGroup& group) {
    ListedModule module = TwoWeights();
    DistributedDataParallel ddp(
        module, {.process_group = group, .find_unused_parameters = group.size() == 2});
    ddp.join([&] { Train(ddp, module, group.rank() == 0 ? 0 : 2); });
    EXPECT_FLOAT_EQ(module.values[0].values[0], 10 - 1);
    ddp.join([&] { Train(ddp, module, group.rank() == 0 ? 2 : 0); });
    EXPECT_FLOAT_EQ(module.values[0].values[0], 10 - 2);
  });
}

TEST(JoinTest, BucketsFollowTheOrderOfARankThatTrains) {
  OnRanks(2, "auto", [](const ProcessGroup& group) {
    ListedModule module = TwoWeights();
    DistributedDataParallel ddp(module, {.process_group = group, .bucket_cap_mb = 0.00006});
    std::vector<size_t> begun;
    ddp.register_comm_hook([&](const GradientBucket& bucket) {
      begun.push_back(bucket.parameters.front());
      return allreduce_hook(bucket);
    });
    ddp.join([&] {
      for (int step = 0; step < 2 * group.rank(); ++step) {  // rank 0 has no batch
        ddp.begin_forward();
        for (const size_t p : {0, 1}) ddp.gradient_ready(p);
        ddp.finish_backward();
      }
    });
    EXPECT_THAT(begun, ElementsAre(1, 0, 0, 1));
  });
}

TEST(JoinTest, AStaticGraphIsLearntByRanksThatTrainLater) {
  OnRanks(2, "auto", [](const ProcessGroup& group) {
    ListedModule module = TwoWeights();
    DistributedDataParallel ddp(module, {.process_group = group, .static_graph = true});
    ddp.join([&] { Train(ddp, module, group.rank() == 0 ? 0 : 2); });
    ddp.join([&] { Train(ddp, module, group.rank() == 0 ? 2 : 1); });
    EXPECT_FLOAT_EQ(module.values[0].values[0], 10 - 1 - 1 - 0.5f);
    EXPECT_THAT(ddp.used_parameters(), ElementsAre(true, true));
  });
}

TEST(JoinTest, AccumulatingBackwardsAreLeftOutByAll) {
  OnRanks(2, "auto", [](const ProcessGroup& group) {
    ListedModule module = TwoWeights();
    DistributedDataParallel ddp(module, {.process_group = group});
    ddp.join([&] {
      for (int batch = 0; batch < 2 + 2 * group.rank(); ++batch) {
        const bool accumulates = batch % 2 == 0;
        std::optional<DistributedDataParallel::NoSync> no_sync;
        if (accumulates) no_sync.emplace(ddp.no_sync());
        ddp.begin_forward();
        for (const size_t p : {1, 0}) {
          module.Add(p, 1);
          ddp.gradient_ready(p);
        }
        ddp.finish_backward();
        if (accumulates) continue;
        module.values[0].values[0] -= module.gradients[0][0];
        ddp.zero_grad();
      }
    });
    EXPECT_FLOAT_EQ(module.values[0].values[0], 10 - 2 - 1);
  });
}

TEST(JoinTest, EarlyTerminationIsAnErrorOnEveryRankIfAsked) {
  OnRanks(3, "auto", [](const ProcessGroup& group) {
    ListedModule module = TwoWeights();
    DistributedDataParallel ddp(module, {.process_group = group});
    const DistError error = ErrorOf([&] {
      ddp.join([&] { Train(ddp, module, group.rank() == 1 ? 1 : 2); },
               {.throw_on_early_termination = true});
    });
    EXPECT_EQ(error.kind(), ErrorKind::kWrongState);
    EXPECT_THAT(error.what(), HasSubstr("rank 1 has no batch left, and others have"));
  });
}

TEST(JoinTest, CallsOutOfOrderSayWhatToDo) {
  OnRanks(1, "auto", [](const ProcessGroup& group) {
    ListedModule module = TwoWeights();
    DistributedDataParallel ddp(module, {.process_group = group});
    const auto join = [&](const std::function<void()>& train) {
      return std::string(ErrorOf([&] { ddp.join(train); }).what());
    };
    EXPECT_THAT(join([&] { ddp.gradient_ready(0); }), HasSubstr("without begin_forward"));
    EXPECT_THAT(join([&] {
                  Train(ddp, module, 1);
                  ddp.gradient_ready(0);
                }),
                HasSubstr("without begin_forward"));
    EXPECT_THAT(join([&] { ddp.join([] {}); }), HasSubstr("join within join"));
    EXPECT_THAT(join([&] {
                  ddp.begin_forward();
                  ddp.gradient_ready(0);
                }),
                HasSubstr("join: the last backward was not finished"));
  });
}

TEST(RoundTest, NamesWhoTrainsAndWhoIsDone) {
  const absl::StatusOr<Round> round =
      RoundOf({Presence::kDone, Presence::kTraining, Presence::kTraining, Presence::kDone});
  ASSERT_TRUE(round.ok());
  EXPECT_THAT(round->done, ElementsAre(0, 3));
  EXPECT_THAT(round->training, ElementsAre(1, 2));
  EXPECT_TRUE(round->averages);
  EXPECT_EQ(round->root(), 1);
  EXPECT_FALSE(RoundOf({Presence::kAccumulating, Presence::kDone})->averages);
  EXPECT_THAT(RoundOf({Presence::kDone})->training, IsEmpty());
}

TEST(RoundTest, RanksThatDisagreeOnNoSyncAreNamed) {
  const absl::Status status =
      RoundOf({Presence::kTraining, Presence::kDone, Presence::kAccumulating}).status();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("rank 2 is in no_sync and rank 0 is not"), HasSubstr("every rank")));
}

}  // namespace
}  // namespace dp::distributed
