#include <functional>
#include <latch>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dp/ddp.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/layers.h"
#include "worker/library/testing/listed_module.h"
#include "worker/library/testing/rank_threads.h"
#include "worker/library/testing/thrown.h"

// Replicas that differ, calls out of order, and errors that stay. The ranks are threads.

namespace dp::distributed {
namespace {

using library::ErrorOf;
using library::kOneLayer;
using library::Layers;
using library::ListedModule;
using library::OnRanks;
using library::Step;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Options = DistributedDataParallelOptions;

TEST(DistributedDataParallelTest, ReplicasThatDifferAreAnErrorOnEveryRank) {
  OnRanks(3, "auto", [](const ProcessGroup& group) {
    ListedModule module({{"same", {1}}, {"w", std::vector<float>(group.rank() == 2 ? 3 : 4)}});
    const DistError error =
        ErrorOf([&] { DistributedDataParallel(module, {.process_group = group}); });
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("rank 0 has w 4 float32"), HasSubstr("rank 2 has w 3 float32"),
                      HasSubstr("build the same model")));
  });
}

// Wraps `zeros` on rank 0 and `ones` on rank 1; returns the error of both.
std::string Disagreement(Module& zeros, Module& ones) {
  std::array<std::string, 2> said;
  OnRanks(2, "auto", [&](const ProcessGroup& group) {
    const DistError error = ErrorOf([&] {
      DistributedDataParallel(group.rank() == 0 ? zeros : ones, {.process_group = group});
    });
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
    const std::string what = error.what(), begin = "replicas differ";
    EXPECT_THAT(what, HasSubstr(begin));
    said[group.rank()] = what.substr(std::min(what.find(begin), what.size()));
  });
  EXPECT_EQ(said[0], said[1]);
  return said[0];
}

TEST(DistributedDataParallelTest, TheFirstDifferenceOfReplicasIsNamed) {
  const auto said = [](auto zeros, auto ones) { return Disagreement(zeros, ones); };
  EXPECT_EQ(said(LinearModule(2, 3), LinearModule(3, 2)),  // as many values
            "replicas differ in parameter 0: rank 0 has weight 3x2 float32; rank 1 has weight 2x3 "
            "float32; build the same model on every rank");
  const ListedModule two({{"a", {1}}, {"b", {2}}}, {{"mean", {0, 0}}});
  EXPECT_THAT(said(two, ListedModule({{"a", {1}}, {"c", {2}}}, {{"mean", {0, 0}}})),
              HasSubstr("in parameter 1: rank 0 has b 1 float32; rank 1 has c 1 float32;"));
  EXPECT_THAT(said(two, ListedModule({{"a", {1}}}, {{"mean", {0, 0}}})),
              HasSubstr("in parameter 1: rank 0 has b 1 float32; rank 1 has no such parameter;"));
  EXPECT_THAT(said(two, ListedModule({{"a", {1}}, {"b", {2}}}, {{"mean", {0}}})),
              HasSubstr("in buffer 0: rank 0 has mean 2 float32; rank 1 has mean 1 float32;"));
  EXPECT_THAT(said(two, ListedModule({{"a", {1}}, {"b", {2}}})),
              HasSubstr("in buffer 0: rank 0 has mean 2 float32; rank 1 has no such buffer;"));
}

TEST(DistributedDataParallelTest, CallsOutOfOrderSayWhatToDo) {
  OnRanks(2, "auto", [](const ProcessGroup& group) {
    ListedModule module = Layers();
    DistributedDataParallel ddp(module, {.process_group = group});
    EXPECT_THAT(ErrorOf([&] { ddp.gradient_ready(4); }).what(),
                HasSubstr("ready for parameter 4, but the module has 4 parameters"));
    ddp.gradient_ready(2);
    EXPECT_THAT(ErrorOf([&] { ddp.gradient_ready(2); }).what(),
                HasSubstr("parameter three is ready twice in one backward"));
    EXPECT_THAT(ErrorOf([&] { ddp.begin_forward(); }).what(),
                HasSubstr("begin_forward: the last backward was not finished"));
    EXPECT_THAT(ErrorOf([&] { ddp.register_comm_hook(bf16_compress_hook); }).what(),
                HasSubstr("call it before the first"));
  });
}

// A rank that fails within a backward neither waits for its peers nor lets them wait.
TEST(DistributedDataParallelTest, AnEndWithinABackwardAbortsTheGroup) {
  std::latch aborted(1);
  OnRanks(2, "auto", [&](const ProcessGroup& group) {
    ListedModule module = Layers();
    std::optional<DistributedDataParallel> ddp(
        std::in_place, module, Options{.process_group = group, .bucket_cap_mb = kOneLayer});
    std::vector<float> word(1);
    if (group.rank() == 0) {
      ddp->gradient_ready(3);  // its bucket is under way, and rank 1 never comes
      ddp.reset();
      EXPECT_EQ(ErrorOf([&] { all_reduce(word, ReduceOp::kSum, group); }).kind(),
                ErrorKind::kAborted);
      aborted.count_down();
    }
    aborted.wait();  // rank 1 leaves only then
  });
}

TEST(DistributedDataParallelTest, ABackwardWhosePeerNeverComesIsAnErrorThatStays) {
  std::latch done(1);
  OnRanks(
      2, "auto",
      [&](const ProcessGroup& group) {
        ListedModule module = Layers();
        DistributedDataParallel ddp(module, {.process_group = group});
        if (group.rank() == 1) return done.wait();
        const DistError first = ErrorOf([&] { Step(ddp, module, 1); });
        EXPECT_EQ(first.kind(), ErrorKind::kTimeout);
        EXPECT_THAT(first.missing_ranks(), ElementsAre(1));
        for (const auto& call : std::vector<std::function<void()>>{
                 [&] { Step(ddp, module, 1); },
                 [&] { ddp.gradient_ready(3); },
                 [&] { ddp.finish_backward(); },
                 [&] { ddp.join([] {}); },
             })
          EXPECT_STREQ(ErrorOf(call).what(), first.what());
        done.count_down();
      },
      std::chrono::seconds(2));
}

TEST(DistributedDataParallelTest, AHookThatThrowsIsAnErrorThatStays) {
  OnRanks(1, "auto", [](const ProcessGroup& group) {
    ListedModule module = Layers();
    DistributedDataParallel ddp(module, {.process_group = group, .bucket_cap_mb = kOneLayer});
    ddp.register_comm_hook([](const GradientBucket& bucket) {
      if (bucket.index == 1) throw DistError(ErrorKind::kProgramFailed, "no codec");
      return allreduce_hook(bucket);
    });
    ddp.gradient_ready(3);
    for (const size_t p : {2, 1, 0})
      EXPECT_STREQ(ErrorOf([&] { ddp.gradient_ready(p); }).what(), "no codec");
    EXPECT_STREQ(ErrorOf([&] { ddp.finish_backward(); }).what(), "no codec");
  });
}

TEST(DistributedDataParallelTest, AnEmptyProcessGroupIsNotTheDefaultGroup) {
  ListedModule module = Layers();
  const DistError error =
      ErrorOf([&] { DistributedDataParallel(module, {.process_group = ProcessGroup()}); });
  EXPECT_EQ(error.kind(), ErrorKind::kWrongState);
  EXPECT_THAT(error.what(), HasSubstr("process_group is an empty handle: this rank is no member"));
}

TEST(DistributedDataParallelTest, AHookAndAReduceTypeExcludeEachOther) {
  OnRanks(1, "auto", [](const ProcessGroup& group) {
    ListedModule module = Layers();
    DistributedDataParallel ddp(module,
                                {.process_group = group, .reduce_type = DataType::kBfloat16});
    const DistError error = ErrorOf([&] { ddp.register_comm_hook(allreduce_hook); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  });
}

}  // namespace
}  // namespace dp::distributed
