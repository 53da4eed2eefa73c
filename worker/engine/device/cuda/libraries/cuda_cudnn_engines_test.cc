#include "worker/engine/device/cuda/libraries/cuda_cudnn_engines.h"

#include <dlfcn.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/device/cuda/libraries/cuda_attention_plan.h"
#include "worker/engine/device/cuda/libraries/cuda_convolution_graph.h"
#include "worker/engine/device/cuda/plans/cuda_planning.h"

namespace dp::engine::cuda {
namespace {

using Sizes = std::array<int64_t, 4>;
using testing::HasSubstr;

// cuDNN plans for a card that is described in words, so these tests need no GPU to see whether it
// accepts our graphs. The card is an H100, or one like it of another generation: 1000 is a B200's.
std::string CardInWords(int generation) {
  return absl::StrReplaceAll(R"({
    "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
    "regsPerBlock": 65536, "multiProcessorCount": 132, "warpSize": 32,
    "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
    "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
    "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
    "supportCoopLaunch": 1, "totalGlobalMem": 85045477376, "smClockRateKHz": 1980000,
    "memClockRateKHz": 2619000, "l2CacheSize": 52428800, "cudaDeviceId": 0, "deviceVer": $0,
    "driverVer": 13000, "deviceName": "NVIDIA H100 80GB HBM3"})",
                             {{"$0", std::to_string(generation)}});
}

class CudnnEnginesTest : public testing::Test {
 protected:
  void SetUp() override {
    // Engines that are compiled at run time call the driver.
    ASSERT_NE(dlopen(DP_CUDA_DRIVER_STAND_IN, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
    TakeCard(900);
  }

  void TakeCard(int generation) {
    const std::string words = CardInWords(generation);
    card_ = CudnnDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    card_.Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
              absl::Span<const char>(words.data(), words.size()));
    const absl::Status known = card_.Finalize();
    if (!known.ok()) GTEST_SKIP() << "this cuDNN does not read the card: " << known;
  }

  std::vector<CudnnEngine> Exact(CudnnGraph graph, const Exactness& asked = {}) {
    const CudnnTarget target{.card = card_.get()};
    const absl::Status finished = graph.Finish(target);
    EXPECT_TRUE(finished.ok()) << finished;
    auto engines = FindCudnnEngines(graph, target);
    EXPECT_TRUE(engines.ok()) << engines.status();
    if (!engines.ok()) return {};
    std::vector<CudnnEngine> exact;
    for (CudnnEngine& each : *engines) {
      if (IsExact(each.notes, asked)) exact.push_back(std::move(each));
    }
    return exact;
  }

  // The workspace of a plan for the card, -1 if it cannot be built.
  int64_t WorkspaceBytes(const CudnnEngine& engine) {
    CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine.config);
    plan.Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, card_);
    int64_t bytes = -1;
    if (plan.Finalize().ok()) {
      plan.Get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, &bytes);
    }
    return bytes;
  }

  bool AnyFits(const std::vector<CudnnEngine>& engines, int64_t bytes_max = kPlanWorkspaceBytes) {
    return std::any_of(engines.begin(), engines.end(), [&](const CudnnEngine& each) {
      const int64_t bytes = WorkspaceBytes(each);
      return bytes >= 0 && bytes <= bytes_max;
    });
  }

  // The least workspace of the engines; -1 if no plan can be built. Prints the engines, for whoever
  // compares versions of cuDNN.
  int64_t LeastWorkspace(const std::string& name, const std::vector<CudnnEngine>& engines) {
    int64_t least = -1;
    for (const CudnnEngine& each : engines) {
      const int64_t bytes = WorkspaceBytes(each);
      if (bytes >= 0 && (least < 0 || bytes < least)) least = bytes;
      std::cout << name << ": " << each.name << ", workspace " << bytes << ", notes";
      for (const cudnnBackendNumericalNote_t note : each.notes) std::cout << " " << note;
      std::cout << "\n";
    }
    return least;
  }

  CudnnDescriptor card_;
};

// This compiles their kernels; the workspace is what the kernels will ask for.
TEST_F(CudnnEnginesTest, AnH100HasPlansForTheAttentionOfGpt2) {
  for (const AttentionShape& shape :
       {AttentionShape{64, 1024, 12, 64}, AttentionShape{4, 128, 4, 32},
        AttentionShape{3, 100, 2, 128}}) {
    EXPECT_TRUE(AnyFits(Exact(MakeForwardGraph(shape))))
        << Describe(shape, AttentionPass::kForward);
    EXPECT_TRUE(AnyFits(Exact(MakeBackwardGraph(shape)), kAttentionWorkspaceMax))
        << Describe(shape, AttentionPass::kBackward);
  }
}

TEST_F(CudnnEnginesTest, BackwardKeepsTwoBytesForEachScore) {
  const AttentionShape shape{64, 1024, 12, 64};
  const int64_t scores = shape.rows() * shape.tokens;
  for (const CudnnEngine& engine : Exact(MakeBackwardGraph(shape))) {
    const int64_t bytes = WorkspaceBytes(engine);
    EXPECT_GE(bytes, 2 * scores) << engine.name;
    EXPECT_LE(bytes, 2 * scores + (1 << 20)) << engine.name;
  }
}

TEST_F(CudnnEnginesTest, TheAtomicFormKeepsNoScores) {
  const AttentionShape shape{64, 1024, 12, 64};
  const int64_t scores = shape.rows() * shape.tokens;
  const auto least = [&](int generation, AttentionPass pass, CudnnGraph graph) {
    return LeastWorkspace(absl::StrCat(generation, " ", Describe(shape, pass)),
                          Exact(std::move(graph), {.same_bits = false}));
  };
  EXPECT_GE(least(900, AttentionPass::kBackward, MakeBackwardGraph(shape)), 2 * scores);
  for (const int generation : {900, 800, 1000}) {
    TakeCard(generation);
    const int64_t bytes =
        least(generation, AttentionPass::kAtomicBackward, MakeAtomicBackwardGraph(shape));
    EXPECT_GE(bytes, 0) << generation;
    EXPECT_LT(bytes, scores / 2) << generation;
  }
}

TEST_F(CudnnEnginesTest, NoEngineOfTheAtomicFormGivesTheSameBitsInEveryRun) {
  for (const AttentionShape& shape :
       {AttentionShape{64, 1024, 12, 64}, AttentionShape{3, 100, 2, 128}}) {
    for (const int generation : {800, 900, 1000}) {
      TakeCard(generation);
      EXPECT_FALSE(Exact(MakeAtomicBackwardGraph(shape), {.same_bits = false}).empty());
      EXPECT_TRUE(Exact(MakeAtomicBackwardGraph(shape), {.same_bits = true}).empty());
    }
  }
}

TEST_F(CudnnEnginesTest, TheGenerationsBeforeAndAfterHaveThemToo) {
  const AttentionShape shape{8, 1024, 12, 64};
  for (const int generation : {800, 1000}) {
    TakeCard(generation);
    EXPECT_TRUE(AnyFits(Exact(MakeForwardGraph(shape)))) << generation;
    EXPECT_TRUE(AnyFits(Exact(MakeBackwardGraph(shape)), kAttentionWorkspaceMax)) << generation;
  }
}

TEST_F(CudnnEnginesTest, AnH100HasPlansForTheConvolutionsOfThePresets) {
  using Pass = ConvolutionPass;
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    for (const ConvolutionShape& shape :
         {ConvolutionShape{128, 28, 28, 1, 16, 3, 1, 1, type, true, true},
          ConvolutionShape{128, 14, 14, 16, 32, 3, 1, 1, type, true, true}}) {
      for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardFilter}) {
        const auto engines =
            Exact(MakeGraph(shape, pass), {.full_float32 = type == ElementType::kFloat32});
        EXPECT_TRUE(AnyFits(engines)) << Describe(shape, pass);
      }
    }
  }
}

TEST_F(CudnnEnginesTest, AnH100HasPlansInTf32ForAConvolutionThatTensorCoresTake) {
  ConvolutionShape shape{128, 14, 14, 16, 32, 3, 1, 1, ElementType::kFloat32, true, true};
  shape.tf32 = true;
  for (const auto pass : {ConvolutionPass::kForward, ConvolutionPass::kBackwardData,
                          ConvolutionPass::kBackwardFilter}) {
    const auto engines = Exact(MakeGraph(shape, pass));
    EXPECT_TRUE(AnyFits(engines)) << Describe(shape, pass);
    EXPECT_TRUE(std::any_of(engines.begin(), engines.end(), [](const CudnnEngine& each) {
      return !IsExact(each.notes, {.full_float32 = true});
    })) << Describe(shape, pass);
  }
}

// The first three are resnet50's at 64 images. The groups are ResNeXt's.
TEST_F(CudnnEnginesTest, TheGenerationsHavePlansForTheConvolutionsOfResidualNetworks) {
  using Pass = ConvolutionPass;
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    ConvolutionShape grouped = {64, 28, 28, 256, 256, 3, 1, 1, type};
    grouped.groups = 32;
    ConvolutionShape depthwise = {64, 56, 56, 64, 128, 3, 2, 1, type};
    depthwise.groups = 64;
    ConvolutionShape dilated = {64, 28, 28, 64, 64, 3, 1, 2, type};
    dilated.dilation = 2;
    ConvolutionShape sequence = {64, 1, 1024, 64, 64, 5, 1, 2, type, true, true};
    sequence.one_row = true;
    for (const int generation : {800, 900, 1000}) {
      TakeCard(generation);
      for (const ConvolutionShape& shape : {ConvolutionShape{64, 224, 224, 3, 64, 7, 2, 3, type},
                                            ConvolutionShape{64, 56, 56, 128, 128, 3, 2, 1, type},
                                            ConvolutionShape{64, 56, 56, 64, 256, 1, 1, 0, type},
                                            grouped, depthwise, dilated, sequence}) {
        for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardFilter}) {
          const auto engines =
              Exact(MakeGraph(shape, pass), {.full_float32 = type == ElementType::kFloat32});
          EXPECT_TRUE(AnyFits(engines)) << generation << " " << Describe(shape, pass);
        }
      }
    }
  }
}

TEST_F(CudnnEnginesTest, BiasAndReluMayEachBeMissing) {
  for (const bool bias : {false, true}) {
    for (const bool relu : {false, true}) {
      const ConvolutionShape shape{8, 12, 12, 16, 32, 5, 2, 2, ElementType::kBfloat16, bias, relu};
      EXPECT_TRUE(AnyFits(Exact(MakeGraph(shape, ConvolutionPass::kForward))))
          << Describe(shape, ConvolutionPass::kForward);
    }
  }
}

TEST_F(CudnnEnginesTest, EnginesHaveNamesOfTheirOwn) {
  const auto engines = Exact(MakeForwardGraph({64, 1024, 12, 64}));
  for (size_t i = 1; i < engines.size(); ++i) EXPECT_NE(engines[i].name, engines[0].name);
  EXPECT_EQ(engines.at(0).name.substr(0, 3), "eng");
}

TEST_F(CudnnEnginesTest, WhatCudnnHasNoFormOfIsSaidWithItsReason) {
  CudnnGraph graph;
  const auto out = graph.Stored(Dense({2, 3, 4, 5}), CUDNN_DATA_FLOAT);
  graph.Matmul(out, out, out);
  const absl::Status refused = graph.Finish({.card = card_.get()});
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.message()), HasSubstr("CUDNN_STATUS_"));
}

TEST(CudnnEngineTest, ExactIsTheSameInEveryRunAndForFloat32Unrounded) {
  const Exactness full = {.full_float32 = true};
  EXPECT_TRUE(IsExact({}, full));
  EXPECT_TRUE(IsExact({CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}, full));
  EXPECT_FALSE(IsExact({CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, {}));
  EXPECT_FALSE(IsExact({CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}, {}));
  EXPECT_TRUE(IsExact({CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, {}));
  EXPECT_FALSE(IsExact({CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, full));
  EXPECT_FALSE(IsExact({CUDNN_NUMERICAL_NOTE_WINOGRAD}, full));
}

TEST(CudnnEngineTest, OnlyACallerThatTakesOtherBitsGetsThem) {
  const Exactness any_bits = {.same_bits = false};
  EXPECT_TRUE(IsExact({CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, any_bits));
  EXPECT_FALSE(IsExact(
      {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION},
      any_bits));
}

TEST(AttentionGraphTest, EachHeadIsReadWhereItLiesInThePackedRows) {
  const AttentionLayouts layouts = LayoutsOf(AttentionShape{2, 7, 3, 16});
  EXPECT_EQ(layouts.packed.sizes, (Sizes{2, 3, 7, 16}));
  EXPECT_EQ(layouts.packed.strides, (Sizes{7 * 3 * 48, 16, 3 * 48, 1}));
  EXPECT_EQ(layouts.packed_transposed.sizes, (Sizes{2, 3, 16, 7}));
  EXPECT_EQ(layouts.packed_transposed.strides, (Sizes{7 * 3 * 48, 16, 1, 3 * 48}));
  EXPECT_EQ(layouts.out.strides, (Sizes{7 * 48, 16, 48, 1}));
}

TEST(AttentionGraphTest, ScoresAreTransposedInTheirStridesAlone) {
  const AttentionLayouts layouts = LayoutsOf(AttentionShape{2, 7, 3, 16});
  EXPECT_EQ(layouts.row, Dense({2, 3, 7, 1}));
  EXPECT_EQ(layouts.scores, Dense({2, 3, 7, 7}));
  EXPECT_EQ(layouts.scores_transposed.sizes, (Sizes{2, 3, 7, 7}));
  EXPECT_EQ(layouts.scores_transposed.strides, (Sizes{147, 49, 1, 7}));
}

TEST(AttentionGraphTest, RefusalsNameTheWidth) {
  EXPECT_EQ(WhyNot(AttentionShape{1, 1, 1, 64}), "");
  EXPECT_THAT(WhyNot(AttentionShape{1, 1, 1, 12}), HasSubstr("heads are 12 wide"));
  EXPECT_THAT(WhyNot(AttentionShape{1, 1, 1, 136}), HasSubstr("heads are 136 wide"));
  EXPECT_THAT(WhyNot(AttentionShape{1, 0, 1, 64}), HasSubstr("below 1"));
  EXPECT_EQ(Describe(AttentionShape{8, 1024, 12, 64}, AttentionPass::kForward),
            "attention forward b=8 t=1024 h=12 d=64");
}

TEST(ConvolutionGraphTest, ChannelsAreFastestInMemory) {
  const ConvolutionLayouts layouts = LayoutsOf(ConvolutionShape{.batch = 4,
                                                                .height = 9,
                                                                .width = 7,
                                                                .in = 3,
                                                                .out = 5,
                                                                .kernel = 3,
                                                                .stride = 2,
                                                                .padding = 1});
  EXPECT_EQ(layouts.in.sizes, (Sizes{4, 3, 9, 7}));
  EXPECT_EQ(layouts.in.strides, (Sizes{9 * 7 * 3, 1, 7 * 3, 3}));
  EXPECT_EQ(layouts.weight.sizes, (Sizes{5, 3, 3, 3}));
  EXPECT_EQ(layouts.weight.strides, (Sizes{27, 1, 9, 3}));
  EXPECT_EQ(layouts.bias.sizes, (Sizes{1, 5, 1, 1}));
  EXPECT_EQ(layouts.out.sizes, (Sizes{4, 5, 5, 4}));
  EXPECT_EQ(layouts.out.strides, (Sizes{5 * 4 * 5, 1, 4 * 5, 5}));
}

TEST(ConvolutionGraphTest, WordsTellShapesAndPassesApart) {
  const ConvolutionShape shape{128, 28, 28, 1, 16, 3, 1, 1, ElementType::kBfloat16, true, true};
  EXPECT_EQ(Describe(shape, ConvolutionPass::kForward),
            "conv forward n=128 28x28x1>16 k=3 s=1 p=1 bfloat16 bias relu");
  EXPECT_EQ(Describe(shape, ConvolutionPass::kBackwardFilter),
            "conv backward-filter n=128 28x28x1>16 k=3 s=1 p=1 bfloat16");
}

}  // namespace
}  // namespace dp::engine::cuda
