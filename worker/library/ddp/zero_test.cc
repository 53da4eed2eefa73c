#include "dp/zero.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/listed_module.h"
#include "worker/library/testing/rank_threads.h"
#include "worker/library/testing/thrown.h"

namespace dp::distributed {
namespace {

using library::ErrorOf;
using library::ListedModule;
using library::OnRanks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr float kRate = 0.1f, kMomentum = 0.9f;
constexpr double kSmallBuckets = 200.0 / (1 << 20);  // in MiB

ListedModule Odd() {
  return ListedModule({{"a", std::vector<float>(37, 1)},
                       {"b", std::vector<float>(5, 2)},
                       {"c", std::vector<float>(64, 3)},
                       {"d", std::vector<float>(1, 4)}});
}

using Values = std::vector<std::vector<float>>;

Values ValuesOf(const ListedModule& module) {
  Values values;
  for (const auto& parameter : module.values) values.push_back(parameter.values);
  return values;
}

// Gradients that differ by rank, step and element.
void Backward(DistributedDataParallel& ddp, ListedModule& module, int rank, int step) {
  ddp.zero_grad();
  ddp.begin_forward();
  for (size_t p = module.values.size(); p-- > 0;) {
    for (size_t i = 0; i < module.values[p].values.size(); ++i)
      module.gradients[p][i] += 0.37f * float(rank + 1) + 0.01f * float(i) - 0.3f * float(step);
    ddp.gradient_ready(p);
  }
  ddp.finish_backward();
}

void Update(const OptimizerPiece& piece) {
  for (size_t i = 0; i < piece.values.size(); ++i) {
    float& momentum = piece.states[0][i];
    momentum = kMomentum * momentum + piece.gradients[i];
    piece.values[i] -= kRate * momentum;
  }
}

// The values after steps [begin, end), from `values` and `states`; what rank 0 has.
struct ShardedRun {
  Values values;
  OptimizerStates states;
  double norm = 0;
};
ShardedRun TrainSharded(int ranks, int begin, int end, const ShardedRun& from,
                        double max_norm = 1e9) {
  ShardedRun trained;
  OnRanks(ranks, "auto", [&](const ProcessGroup& group) {
    ListedModule module = Odd();
    for (size_t p = 0; p < from.values.size(); ++p) module.values[p].values = from.values[p];
    DistributedDataParallel ddp(module, {.process_group = group, .bucket_cap_mb = kSmallBuckets});
    ZeroRedundancyOptimizer optimizer(ddp, 1, Update);
    if (!from.states.empty()) optimizer.load(from.states);
    double norm = 0;
    // The gradients are those of three ranks, whatever the number here.
    for (int step = begin; step < end; ++step) {
      Backward(ddp, module, ranks == 3 ? group.rank() : 1, step);
      norm = optimizer.clip_grad_norm(max_norm);
      optimizer.step();
    }
    EXPECT_THAT(ErrorOf([&] { optimizer.consolidate(ranks); }).what(),
                HasSubstr("consolidate to rank " + std::to_string(ranks) + "; give a rank"));
    const OptimizerStates states = optimizer.consolidate(ranks - 1);
    if (group.rank() == ranks - 1) {
      trained.values = ValuesOf(module);
      trained.states = states;
      trained.norm = norm;
    } else {
      EXPECT_THAT(states, IsEmpty());
    }
  });
  return trained;
}

TEST(ZeroTest, GivesTheBitsOfTheWholeOptimizerWithAShareOfItsStates) {
  Values whole;
  std::vector<size_t> kept(3);
  OnRanks(3, "auto", [&](const ProcessGroup& group) {
    ListedModule module = Odd();
    DistributedDataParallel ddp(module, {.process_group = group, .bucket_cap_mb = kSmallBuckets});
    std::vector<std::vector<float>> momentum;
    for (const auto& parameter : module.values) momentum.emplace_back(parameter.values.size());
    for (int step = 0; step < 4; ++step) {
      Backward(ddp, module, group.rank(), step);
      for (size_t p = 0; p < module.values.size(); ++p) {
        std::vector<float>& values = module.values[p].values;
        Update({.values = values,
                .gradients = {module.gradients[p], values.size()},
                .states = {momentum[p]}});
      }
    }
    if (group.rank() == 0) whole = ValuesOf(module);
    ListedModule other = Odd();
    DistributedDataParallel sharded(other,
                                    {.process_group = group, .bucket_cap_mb = kSmallBuckets});
    kept[size_t(group.rank())] = ZeroRedundancyOptimizer(sharded, 1, Update).floats_kept();
  });
  EXPECT_EQ(TrainSharded(3, 0, 4, {}).values, whole);
  for (const size_t floats : kept) EXPECT_LT(floats, (37 + 5 + 64 + 1) / 2u);
}

TEST(ZeroTest, StatesMoveToAnotherNumberOfRanks) {
  const ShardedRun half = TrainSharded(2, 0, 2, {}), all = TrainSharded(2, 0, 4, {});
  ASSERT_EQ(half.states.at("c")[0].size(), 64u);
  EXPECT_NE(half.states.at("c")[0][63], 0);
  // Ranks 1 and 4 train as the two did, since all have the same gradients.
  EXPECT_EQ(TrainSharded(1, 2, 4, half).values, all.values);
  const ShardedRun four = TrainSharded(4, 2, 4, half);
  EXPECT_EQ(four.values, all.values);
  EXPECT_EQ(four.states, all.states);
}

TEST(ZeroTest, ClipsByTheNormOfAllShares) {
  const ShardedRun one = TrainSharded(1, 0, 1, {}, 2.0), three = TrainSharded(2, 0, 1, {}, 2.0);
  EXPECT_GT(one.norm, 2.0);
  EXPECT_NEAR(three.norm, one.norm, 1e-9);
  EXPECT_EQ(three.values, one.values);
  EXPECT_NE(TrainSharded(1, 0, 1, {}).values, one.values);
}

TEST(ZeroTest, SaysWhyItCannotBeUsed) {
  OnRanks(1, "auto", [](const ProcessGroup& group) {
    ListedModule module = Odd();
    const auto why = [&](const DistributedDataParallelOptions& options, bool backward) {
      DistributedDataParallel ddp(module, options);
      if (backward) Backward(ddp, module, 0, 0);
      return std::string(ErrorOf([&] { ZeroRedundancyOptimizer(ddp, 1, Update); }).what());
    };
    EXPECT_THAT(why({.process_group = group, .check_reduction = true}, false),
                HasSubstr("together with check_reduction"));
    EXPECT_THAT(why({.process_group = group, .reduce_type = DataType::kBfloat16}, false),
                HasSubstr("together with reduce_type"));
    EXPECT_THAT(why({.process_group = group}, true), HasSubstr("call it before the first"));

    ListedModule other = Odd();
    DistributedDataParallel hooked(other, {.process_group = group});
    hooked.register_comm_hook(bf16_compress_hook);
    EXPECT_THAT(ErrorOf([&] { ZeroRedundancyOptimizer(hooked, 1, Update); }).what(),
                HasSubstr("ZeroRedundancyOptimizer after register_comm_hook; choose one"));

    DistributedDataParallel ddp(module, {.process_group = group});
    ZeroRedundancyOptimizer optimizer(ddp, 1, Update);
    EXPECT_THAT(ErrorOf([&] { ddp.register_comm_hook(allreduce_hook); }).what(),
                HasSubstr("register_comm_hook after ZeroRedundancyOptimizer; choose one"));
    EXPECT_THAT(ErrorOf([&] { ZeroRedundancyOptimizer(ddp, 1, Update); }).what(),
                HasSubstr("ZeroRedundancyOptimizer after ZeroRedundancyOptimizer"));
    OptimizerStates states = optimizer.consolidate();
    states["b"][0].resize(4);
    EXPECT_THAT(ErrorOf([&] { optimizer.load(states); }).what(),
                HasSubstr("1 states, of 4 floats for parameter b; give 1 states of 5 floats"));
    states.erase("b");
    EXPECT_THAT(ErrorOf([&] { optimizer.load(states); }).what(),
                HasSubstr("have nothing for parameter b"));
  });
}

TEST(ZeroTest, MoreStatesThanAnyOptimizerKeepsAreRefusedAtOnce) {
  OnRanks(2, "auto", [](const ProcessGroup& group) {
    ListedModule module = Odd();
    DistributedDataParallel ddp(module, {.process_group = group});
    const DistError error = ErrorOf([&] { ZeroRedundancyOptimizer(ddp, size_t{1} << 60, Update); });
    EXPECT_EQ(error.kind(), ErrorKind::kLimit);
    EXPECT_THAT(error.what(), HasSubstr("ZeroRedundancyOptimizer: states is 1152921504606846976; "
                                        "give the floats that the update keeps for each value, "
                                        "1024 at most"));
  });
}

TEST(ZeroTest, RanksWithDifferentNumbersOfStatesAreNamed) {
  OnRanks(2, "auto", [](const ProcessGroup& group) {
    ListedModule module = Odd();
    DistributedDataParallel ddp(module, {.process_group = group});
    const size_t states = group.rank() == 0 ? 1 : 2;
    const DistError error = ErrorOf([&] { ZeroRedundancyOptimizer(ddp, states, Update); });
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("states 1"), HasSubstr("states 2"),
                      HasSubstr("; give every rank's ZeroRedundancyOptimizer the same number "
                                "of states")));
  });
}

TEST(ZeroTest, StepsWithoutTheOptimizerAreErrors) {
  OnRanks(2, "auto", [](const ProcessGroup& group) {
    ListedModule module = Odd();
    std::optional<DistributedDataParallel> ddp(
        std::in_place, module, DistributedDataParallelOptions{.process_group = group});
    {
      ZeroRedundancyOptimizer optimizer(*ddp, 1, Update);
      Backward(*ddp, module, group.rank(), 0);
      optimizer.step();
    }
    const std::vector<std::function<void()>> calls = {[&] { ddp->begin_forward(); },
                                                      [&] { ddp->gradient_ready(0); },
                                                      [&] { ddp->finish_backward(); }};
    for (const auto& call : calls) {
      const DistError error = ErrorOf(call);
      EXPECT_EQ(error.kind(), ErrorKind::kWrongState);
      EXPECT_THAT(error.what(), HasSubstr("the ZeroRedundancyOptimizer has ended"));
    }
    ddp.reset();
    ddp.emplace(module, DistributedDataParallelOptions{.process_group = group});
    Backward(*ddp, module, group.rank(), 1);
  });
}

TEST(ZeroTest, AnUpdateThatThrowsNoExceptionOfTheStandardIsTheProgramsFailure) {
  OnRanks(1, "auto", [](const ProcessGroup& group) {
    ListedModule module = Odd();
    DistributedDataParallel ddp(module, {.process_group = group});
    ZeroRedundancyOptimizer optimizer(ddp, 1, [](const OptimizerPiece&) { throw 42; });
    Backward(ddp, module, 0, 0);
    const DistError error = ErrorOf([&] { optimizer.step(); });
    EXPECT_EQ(error.kind(), ErrorKind::kProgramFailed);
    EXPECT_THAT(error.what(),
                HasSubstr("the update of a ZeroRedundancyOptimizer threw an exception "
                          "of unknown type"));
  });
}

}  // namespace
}  // namespace dp::distributed
