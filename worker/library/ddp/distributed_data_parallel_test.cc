#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dp/ddp.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/layers.h"
#include "worker/library/testing/linear_module.h"
#include "worker/library/testing/listed_module.h"
#include "worker/library/testing/rank_threads.h"
#include "worker/library/testing/thrown.h"

// DistributedDataParallel as a program uses it. The ranks are threads.

namespace dp::distributed {
namespace {

using library::ErrorOf;
using library::kOneLayer;
using library::Layers;
using library::LinearModule;
using library::ListedModule;
using library::OnRanks;
using library::Step;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Options = DistributedDataParallelOptions;

std::vector<float> FirstOfEach(const ListedModule& module) {
  std::vector<float> first;
  for (const float* gradient : module.gradients) first.push_back(*gradient);
  return first;
}

TEST(DistributedDataParallelTest, TheWorkedExampleGivesTheMeanOverRanks) {
  // A linear layer of 2 inputs and 3 outputs; the loss is the sum of its outputs times the labels.
  OnRanks(2, "auto", [](const ProcessGroup& group) {
    const int rank = group.rank();
    const std::array<std::array<float, 2>, 2> inputs = {{{0.5209f, 0.3261f}, {-0.1868f, -1.0617f}}};
    ListedModule linear({{"weight", std::vector<float>(6, float(rank))},
                         {"bias", std::vector<float>(3, float(rank))}});
    DistributedDataParallel ddp(linear, {.process_group = group});
    EXPECT_EQ(linear.values[0].values[5], 0);  // rank 0's
    ddp.begin_forward();
    linear.gradients[1][rank] += 1;
    ddp.gradient_ready(1);
    for (size_t i = 0; i < 2; ++i) linear.gradients[0][2 * rank + i] += inputs[rank][i];
    ddp.gradient_ready(0);
    ddp.finish_backward();
    const std::vector<float> weight(linear.gradients[0], linear.gradients[0] + 6);
    const std::vector<float> bias(linear.gradients[1], linear.gradients[1] + 3);
    EXPECT_THAT(weight, ElementsAre(0.26045f, 0.16305f, -0.0934f, -0.53085f, 0, 0));
    EXPECT_THAT(bias, ElementsAre(0.5f, 0.5f, 0));
  });
}

TEST(DistributedDataParallelTest, ALinearModuleGivesTheWorkedExample) {
  OnRanks(2, "auto", [](const ProcessGroup& group) {
    const int rank = group.rank();
    const std::vector<float> input =
        rank == 0 ? std::vector<float>{0.5209f, 0.3261f} : std::vector<float>{-0.1868f, -1.0617f};
    std::vector<float> label(3);
    label[rank] = 1;  // the gradient of the loss, the sum of output * label, by the output
    LinearModule linear(2, 3);
    DistributedDataParallel ddp(linear, {.process_group = group});
    ddp.begin_forward();
    linear.forward({Tensor({1, 2}, input)});
    linear.backward(Tensor({1, 3}, label));
    for (const size_t p : {1, 0}) ddp.gradient_ready(p);
    ddp.finish_backward();
    EXPECT_THAT(linear.weight_gradient, ElementsAre(0.26045f, 0.16305f, -0.0934f, -0.53085f, 0, 0));
    EXPECT_THAT(linear.bias_gradient, ElementsAre(0.5f, 0.5f, 0));
  });
}

TEST(DistributedDataParallelTest, EveryOptionHasItsDefault) {
  const Options options;
  EXPECT_THAT(options.device_ids, IsEmpty());
  EXPECT_EQ(options.output_device, "");
  EXPECT_EQ(options.dim, 0);
  EXPECT_TRUE(options.broadcast_buffers);
  EXPECT_FALSE(options.process_group);
  EXPECT_EQ(options.bucket_cap_mb, 25);
  EXPECT_FALSE(options.find_unused_parameters);
  EXPECT_FALSE(options.check_reduction);
  EXPECT_TRUE(options.gradient_as_bucket_view);
  EXPECT_FALSE(options.static_graph);
  EXPECT_EQ(options.reduce_type, std::nullopt);
}

TEST(DistributedDataParallelTest, TheFirstBucketIsOfOneMebibyteAndOthersOfTwentyFive) {
  OnRanks(1, "auto", [](const ProcessGroup& group) {
    std::vector<ListedModule::Values> layers;
    for (int i = 0; i < 27; ++i)
      layers.push_back({"layer" + std::to_string(i), std::vector<float>(262144)});  // 1 MiB
    ListedModule module(layers);
    EXPECT_EQ(DistributedDataParallel(module, {.process_group = group}).buckets(), 3u);
  });
}

TEST(DistributedDataParallelTest, EveryReplicaBeginsAsRankZeros) {
  OnRanks(3, "auto", [](const ProcessGroup& group) {
    ListedModule module({{"w", {float(group.rank()), 7}}}, {{"mean", {float(10 + group.rank())}}});
    const DistributedDataParallel ddp(module, {.process_group = group});
    EXPECT_THAT(module.values[0].values, ElementsAre(0, 7));
    EXPECT_THAT(module.running[0].values, ElementsAre(10));
  });
}

TEST(DistributedDataParallelTest, GradientsAreReducedWhereTheModuleWritesThem) {
  for (const bool view : {true, false}) {
    for (const bool moves : {true, false}) {
      OnRanks(2, "auto", [&](const ProcessGroup& group) {
        ListedModule module = Layers(group.rank());
        module.moves = moves;
        const std::vector<float*> own = module.gradients;
        DistributedDataParallel ddp(module, {.process_group = group,
                                             .bucket_cap_mb = 2 * kOneLayer,
                                             .gradient_as_bucket_view = view});
        EXPECT_EQ(ddp.buckets(), 2u);
        EXPECT_EQ(module.gradients[0] != own[0], view && moves);
        Step(ddp, module, group.rank() == 0 ? 1 : 3);
        EXPECT_THAT(FirstOfEach(module), ElementsAre(2, 4, 6, 8));
        EXPECT_EQ(ddp.gradients()[1].data, module.gradients[1]);
        Step(ddp, module, 1);  // adds, since nobody zeroed
        EXPECT_THAT(FirstOfEach(module), ElementsAre(3, 6, 9, 12));
        ddp.zero_grad();
        EXPECT_THAT(FirstOfEach(module), ElementsAre(0, 0, 0, 0));
      });
    }
  }
}

TEST(DistributedDataParallelTest, BucketsBeginInOneOrderWhateverTheRanksOrder) {
  OnRanks(2, "auto", [](const ProcessGroup& group) {
    ListedModule module = Layers();
    DistributedDataParallel ddp(module, {.process_group = group, .bucket_cap_mb = kOneLayer});
    EXPECT_EQ(ddp.buckets(), 4u);
    const std::vector<size_t> order =
        group.rank() == 0 ? std::vector<size_t>{1, 0, 3, 2} : std::vector<size_t>{0, 3, 2, 1};
    std::vector<std::vector<size_t>> begun;
    ddp.register_comm_hook([&](const GradientBucket& bucket) {
      begun.push_back(bucket.parameters);
      EXPECT_EQ(bucket.is_last, bucket.index == 3);
      return allreduce_hook(bucket);
    });
    Step(ddp, module, group.rank() == 0 ? 1 : 3, order);
    EXPECT_THAT(begun, ElementsAre(ElementsAre(3), ElementsAre(2), ElementsAre(1), ElementsAre(0)));
    EXPECT_THAT(FirstOfEach(module), ElementsAre(2, 4, 6, 8));
    // The next backward has the order in which rank 0 had its gradients, and what they held.
    begun.clear();
    Step(ddp, module, 1, order);
    EXPECT_THAT(begun, ElementsAre(ElementsAre(1), ElementsAre(0), ElementsAre(3), ElementsAre(2)));
    EXPECT_THAT(FirstOfEach(module), ElementsAre(3, 6, 9, 12));
  });
}

// One parameter of each type of float.
class TypedModule : public Module {
 public:
  std::vector<Parameter> parameters() override {
    return {{"half", {2}, half, half_gradient},
            {"single", {1}, single, single_gradient},
            {"bhalf", {1}, bhalf, bhalf_gradient},
            {"double", {1}, wide, wide_gradient}};
  }

  std::vector<Float16> half{2}, half_gradient{2};
  std::vector<float> single{1}, single_gradient{1};
  std::vector<Bfloat16> bhalf{1}, bhalf_gradient{1};
  std::vector<double> wide{1}, wide_gradient{1};
};

TEST(DistributedDataParallelTest, EachTypeHasBucketsOfItsOwn) {
  OnRanks(2, "auto", [](const ProcessGroup& group) {
    TypedModule module;
    DistributedDataParallel ddp(module, {.process_group = group});
    EXPECT_EQ(ddp.buckets(), 4u);
    const float value = group.rank() == 0 ? 1 : 2;
    module.half_gradient[1] = Float16(value);
    module.single_gradient[0] = value;
    module.bhalf_gradient[0] = Bfloat16(value);
    module.wide_gradient[0] = value;
    for (const size_t p : {3, 2, 1, 0}) ddp.gradient_ready(p);
    ddp.finish_backward();
    EXPECT_EQ(static_cast<float>(module.half_gradient[1]), 1.5f);
    EXPECT_EQ(module.single_gradient[0], 1.5f);
    EXPECT_EQ(static_cast<float>(module.bhalf_gradient[0]), 1.5f);
    EXPECT_EQ(module.wide_gradient[0], 1.5);
  });
}

TEST(DistributedDataParallelTest, AParameterWithoutAGradientIsNamedWithTheOption) {
  OnRanks(2, "auto", [](const ProcessGroup& group) {
    ListedModule module = Layers();
    DistributedDataParallel ddp(module, {.process_group = group});
    ddp.gradient_ready(3);
    ddp.gradient_ready(1);
    const DistError error = ErrorOf([&] { ddp.finish_backward(); });
    EXPECT_EQ(error.kind(), ErrorKind::kWrongState);
    EXPECT_THAT(error.what(),
                HasSubstr("no gradient in this backward for one, three; set "
                          "find_unused_parameters if the loss need not depend on every parameter"));
  });
}

TEST(DistributedDataParallelTest, UnusedParametersCountAsTheyAre) {
  OnRanks(2, "auto", [](const ProcessGroup& group) {
    ListedModule module = Layers();
    DistributedDataParallel ddp(
        module,
        {.process_group = group, .bucket_cap_mb = kOneLayer, .find_unused_parameters = true});
    // Layer two is rank 0's alone, layer three nobody's.
    Step(ddp, module, 1,
         group.rank() == 0 ? std::vector<size_t>{3, 1, 0} : std::vector<size_t>{0, 3});
    EXPECT_THAT(FirstOfEach(module), ElementsAre(1, 1, 0, 4));
    EXPECT_THAT(ddp.used_parameters(), ElementsAre(true, true, false, true));
    ddp.zero_grad();
    Step(ddp, module, 1);
    EXPECT_THAT(FirstOfEach(module), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(ddp.used_parameters(), ElementsAre(true, true, true, true));
  });
}

TEST(DistributedDataParallelTest, AStaticGraphDoesNotWaitForUnusedParameters) {
  OnRanks(2, "auto", [](const ProcessGroup& group) {
    ListedModule module = Layers();
    DistributedDataParallel ddp(
        module, {.process_group = group, .bucket_cap_mb = kOneLayer, .static_graph = true});
    size_t begun = 0;
    ddp.register_comm_hook([&](const GradientBucket& bucket) {
      ++begun;
      return allreduce_hook(bucket);
    });
    Step(ddp, module, 1, {2, 0});
    EXPECT_THAT(ddp.used_parameters(), ElementsAre(true, false, true, false));
    ddp.zero_grad();
    begun = 0;
    ddp.begin_forward();
    ddp.gradient_ready(2);
    ddp.gradient_ready(0);
    EXPECT_EQ(begun, 4u);  // before the backward has ended
    ddp.finish_backward();
    EXPECT_THAT(ddp.used_parameters(), ElementsAre(true, false, true, false));

    EXPECT_THAT(ErrorOf([&] { ddp.gradient_ready(3); }).what(),
                HasSubstr("static_graph: parameter four had no gradient in the first backward"));
    EXPECT_THAT(ErrorOf([&] { ddp.finish_backward(); }).what(),
                HasSubstr("static_graph: no gradient in this backward for one, three"));
  });
}

TEST(DistributedDataParallelTest, NoSyncAddsUpBeforeTheMeanIsTaken) {
  for (const bool moves : {true, false}) {
    OnRanks(2, "auto", [&](const ProcessGroup& group) {
      ListedModule module = Layers();
      module.moves = moves;
      DistributedDataParallel ddp(module, {.process_group = group});
      const float own = group.rank() == 0 ? 1 : 3;
      {
        const auto no_sync = ddp.no_sync();
        Step(ddp, module, own);
        Step(ddp, module, own, {3});  // nothing is missing, since nothing is averaged
        EXPECT_THAT(FirstOfEach(module), ElementsAre(own, 2 * own, 3 * own, 8 * own));
      }
      Step(ddp, module, own);
      EXPECT_THAT(FirstOfEach(module), ElementsAre(4, 8, 12, 24));
    });
  }
}

TEST(DistributedDataParallelTest, BuffersAreRankZerosBeforeEachForward) {
  for (const bool broadcasts : {true, false}) {
    OnRanks(2, "auto", [&](const ProcessGroup& group) {
      ListedModule module({{"w", {1}}}, {{"mean", {0}}});
      DistributedDataParallel ddp(module,
                                  {.broadcast_buffers = broadcasts, .process_group = group});
      module.running[0].values[0] = float(5 + group.rank());
      ddp.begin_forward();
      EXPECT_EQ(module.running[0].values[0], broadcasts ? 5 : 5 + group.rank());
      ddp.gradient_ready(0);
      ddp.finish_backward();
    });
  }
}

TEST(DistributedDataParallelTest, CompressingHooksRoundEachRanksGradients) {
  OnRanks(2, "auto", [](const ProcessGroup& group) {
    const auto mean_of = [&](const CommHook& hook) {
      ListedModule module({{"w", {0, 0}}});
      DistributedDataParallel ddp(module, {.process_group = group});
      ddp.register_comm_hook(hook);
      module.gradients[0][0] = 1.0f + 0x1p-12f;  // needs 13 bits
      module.gradients[0][1] = group.rank() == 0 ? 8 : 24;
      ddp.gradient_ready(0);
      ddp.finish_backward();
      return std::vector<float>(module.gradients[0], module.gradients[0] + 2);
    };
    EXPECT_THAT(mean_of(allreduce_hook), ElementsAre(1.0f + 0x1p-12f, 16));
    EXPECT_THAT(mean_of(fp16_compress_hook), ElementsAre(1, 16));
    EXPECT_THAT(mean_of(bf16_compress_hook), ElementsAre(1, 16));
  });
}

TEST(DistributedDataParallelTest, GradientsTravelInTheReduceType) {
  OnRanks(3, "auto", [](const ProcessGroup& group) {
    const auto mean_in = [&](std::optional<DataType> type) {
      TypedModule module;
      DistributedDataParallel ddp(module, {.process_group = group, .reduce_type = type});
      // The largest half is 65504. The sum exceeds it, the mean does not.
      module.half_gradient[0] = Float16(61440.0f);
      module.single_gradient[0] = group.rank() == 0 ? 1.0f + 0x1p-12f : 1.0f;
      for (const size_t p : {0, 1, 2, 3}) ddp.gradient_ready(p);
      ddp.finish_backward();
      EXPECT_EQ(static_cast<float>(module.half_gradient[0]), 61440.0f);
      return module.single_gradient[0];
    };
    EXPECT_NE(mean_in(std::nullopt), 1.0f);
    EXPECT_EQ(mean_in(DataType::kBfloat16), 1.0f);
    EXPECT_NE(mean_in(DataType::kFloat64), 1.0f);
  });
}

TEST(DistributedDataParallelTest, CheckReductionNamesRanksWhoseGradientsDiffer) {
  OnRanks(2, "auto", [](const ProcessGroup& group) {
    ListedModule module({{"w", {0, 0}}});
    DistributedDataParallel ddp(module, {.process_group = group, .check_reduction = true});
    bool spoil = false;
    ddp.register_comm_hook([&](const GradientBucket& bucket) -> std::function<void()> {
      return [&spoil, &group, bucket, end = allreduce_hook(bucket)] {
        end();
        if (spoil) static_cast<float*>(bucket.gradients.data)[1] += float(group.rank());
      };
    });
    ddp.gradient_ready(0);
    ddp.finish_backward();
    spoil = true;
    ddp.gradient_ready(0);
    const DistError error = ErrorOf([&] { ddp.finish_backward(); });
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
    EXPECT_THAT(error.what(), HasSubstr("rank 1 differ from those of rank 0"));
  });
}

TEST(DistributedDataParallelTest, AModelWithoutParametersTrains) {
  OnRanks(2, "auto", [](const ProcessGroup& group) {
    ListedModule module({});
    DistributedDataParallel ddp(module, {.process_group = group});
    ddp.begin_forward();
    ddp.finish_backward();
    EXPECT_EQ(ddp.buckets(), 0u);
  });
}

TEST(DistributedDataParallelTest, TheBackendChangesNoBit) {
  if (!is_gloo_available()) GTEST_SKIP() << "no Gloo";
  std::vector<std::vector<float>> gradients(2);
  for (const size_t run : {0, 1}) {
    OnRanks(3, run == 0 ? "shm" : "gloo", [&](const ProcessGroup& group) {
      ListedModule module = Layers();
      DistributedDataParallel ddp(
          module, {.process_group = group, .bucket_cap_mb = (run == 0 ? 1 : 3) * kOneLayer});
      for (int step = 0; step < 3; ++step) Step(ddp, module, 0.1f * float(group.rank() + step));
      if (group.rank() == 0) gradients[run] = FirstOfEach(module);
    });
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

}  // namespace
}  // namespace dp::distributed
