#include "worker/engine/device/cuda/layers/cuda_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace dp::engine::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

LayerProgram PlanImages(const std::vector<model::LayerSpec>& specs, const model::Shape& image,
                        const LayerProgramOptions& options) {
  return PlanLayers(*model::CheckShapes(model::WithOutputs(specs, 10), image), options);
}

LayerProgram PlanText(const std::vector<model::LayerSpec>& specs, Precision precision,
                      int tokens = 16, int vocabulary = 50257) {
  return PlanLayers(*model::CheckLanguageModel(specs, tokens, vocabulary),
                    {.network = {.batch_size = 2, .precision = precision}});
}

std::vector<std::string> Lines(const LayerProgram& program) {
  return absl::StrSplit(Describe(program), '\n', absl::SkipEmpty());
}

const LayerProgramOptions kOfFour = {.network = {.batch_size = 4}};

TEST(CudaLayersTest, AnMlpIsOneOperationALinearLayer) {
  EXPECT_THAT(
      Lines(PlanImages(model::MlpPreset(), {1, 28, 28}, kOfFour)),
      ElementsAre("linear bias relu", "linear bias relu", "linear bias", "cross entropy in place",
                  "linear weight bias gradient linear5.bias linear5.weight",
                  "linear input gradient", "relu bias gradient linear3.bias",
                  "linear weight gradient linear3.weight", "linear input gradient",
                  "relu bias gradient linear1.bias", "linear weight gradient linear1.weight"));
}

TEST(CudaLayersTest, ACnnFusesConvolutionBiasAndReluAndPoolsTheRelusGradient) {
  EXPECT_THAT(Lines(PlanImages(model::CnnPreset(), {1, 28, 28}, kOfFour)),
              ElementsAre("convolve bias relu", "pool", "order weight", "convolve bias relu",
                          "pool plain", "linear bias relu", "linear bias", "cross entropy in place",
                          "linear weight bias gradient linear9.bias linear9.weight",
                          "linear input gradient", "relu bias gradient linear7.bias",
                          "linear weight gradient linear7.weight", "linear input gradient",
                          "plain relu bias gradient conv2d3.bias", "pool plain gradient",
                          "convolution weight gradient conv2d3.weight",
                          "convolution input gradient", "relu bias gradient conv2d0.bias",
                          "pool gradient", "convolution weight gradient conv2d0.weight"));
}

const std::vector<model::LayerSpec> kOneBlock =
    model::Gpt({.blocks = 1, .heads = 2, .features = 16});

TEST(CudaLayersTest, AGptFusesAddsWithNormsAndTheOutputLayerWithItsLoss) {
  EXPECT_THAT(
      Lines(PlanText(kOneBlock, Precision::kBfloat16)),
      ElementsAre("embed positions", "norm", "linear bias", "fused attend", "linear bias",
                  "add norm", "linear bias gelu", "linear bias", "add norm", "linear",
                  "cross entropy in place", "linear weight gradient padded",
                  "linear input gradient", "norm gradient ln_f.bias ln_f.weight",
                  "linear weight bias gradient h.0.mlp.c_proj.bias h.0.mlp.c_proj.weight",
                  "linear input gelu gradient",
                  "linear weight bias gradient h.0.mlp.c_fc.bias h.0.mlp.c_fc.weight",
                  "linear input gradient", "norm shortcut gradient h.0.ln_2.bias h.0.ln_2.weight",
                  "linear weight bias gradient h.0.attn.c_proj.bias h.0.attn.c_proj.weight",
                  "linear input gradient", "fused attend gradient",
                  "linear weight bias gradient h.0.attn.c_attn.bias h.0.attn.c_attn.weight",
                  "linear input gradient", "norm shortcut gradient h.0.ln_1.bias h.0.ln_1.weight",
                  "positions gradient wpe.weight", "embedding gradient wte.weight"));
}

TEST(CudaLayersTest, InFloat32AttentionIsOursAndNothingIsPadded) {
  const LayerProgram program = PlanText(kOneBlock, Precision::kFloat32);
  EXPECT_THAT(Describe(program), HasSubstr("\nattend\n"));
  EXPECT_THAT(Describe(program), Not(HasSubstr("padded")));
  EXPECT_THAT(Describe(program), Not(HasSubstr("convert")));
  EXPECT_EQ(program.take_loss().stride, 50257);
  EXPECT_EQ(program.values_padding, 0);
}

TEST(CudaLayersTest, InBf16ATiedOutputIsPaddedToWholeTiles) {
  const LayerProgram program = PlanText(kOneBlock, Precision::kBfloat16);
  EXPECT_EQ(program.take_loss().classes, 50257);
  EXPECT_EQ(program.take_loss().stride, 50304);
  EXPECT_EQ(program.values_padding, (50304 - 50257) * 16);
}

TEST(CudaLayersTest, HeadsThatTheLibraryDoesNotTakeAreConverted) {
  const auto specs = model::Gpt({.blocks = 1, .heads = 4, .features = 16});
  const std::string lines = Describe(PlanText(specs, Precision::kBfloat16));
  EXPECT_THAT(lines, HasSubstr("convert to float\nattend\nconvert to bf16"));
  EXPECT_THAT(lines, HasSubstr("convert to float\nattend gradient\nconvert to bf16"));
}

TEST(CudaLayersTest, AFunctionThatTheLibraryDoesNotFuseIsAnOperationOfItsOwn) {
  const auto program = PlanImages({{"", model::Flatten{}},
                                   {"", model::Linear{.out = 8}},
                                   {"", model::Gelu{.exact = true}},
                                   {"", model::Linear{.out = 8}},
                                   {"", model::Silu{}},
                                   {"", model::Linear{.out = 3}}},
                                  {1, 4, 4}, kOfFour);
  EXPECT_THAT(Describe(program),
              HasSubstr("linear bias\nexact gelu\nlinear bias\nsilu\nlinear bias\n"));
  EXPECT_THAT(Describe(program), HasSubstr("\nsilu gradient\n"));
  EXPECT_THAT(Describe(program), HasSubstr("\nexact gelu gradient\n"));
}

TEST(CudaLayersTest, ABlockOfAResidualNetworkFusesItsNormsWithTheirRelus) {
  EXPECT_THAT(
      Lines(PlanImages({{"conv", model::Conv2d{.out = 4, .kernel = 3, .bias = false}},
                        {"bn", model::BatchNorm{}},
                        {"", model::Relu{}},
                        {"pool", model::MaxPool2d{.kernel = 3, .stride = 2, .padding = 1}},
                        {"", model::Conv2d{.out = 4, .kernel = 1, .bias = false}},
                        {"last", model::BatchNorm{}},
                        {"", model::Add{"pool"}},
                        {"", model::Relu{}},
                        {"", model::AdaptiveAvgPool2d{}},
                        {"", model::Flatten{}},
                        {"fc", model::Linear{.out = 3}}},
                       {3, 9, 9}, kOfFour)),
      ElementsAre("take images", "order weight", "convolve", "batch norm relu", "pool", "convolve",
                  "batch norm", "sum", "relu", "mean pool", "linear bias", "cross entropy in place",
                  "linear weight bias gradient fc.bias fc.weight", "linear input gradient",
                  "mean pool gradient", "relu gradient",
                  "batch norm gradient last.bias last.weight",
                  "convolution weight gradient conv2d4.weight", "convolution input gradient", "sum",
                  "pool gradient", "batch norm relu gradient bn.bias bn.weight",
                  "convolution weight gradient conv.weight",
                  "pass statistics last.running_var last.running_mean",
                  "pass statistics bn.running_var bn.running_mean"));
}

TEST(CudaLayersTest, SequencesAreConvolvedAndNormedWithChannelsLast) {
  const auto program = PlanImages({{"conv", model::Conv1d{.out = 4, .kernel = 3}},
                                   {"", model::Relu{}},
                                   {"bn", model::BatchNorm{}},
                                   {"", model::Flatten{}},
                                   {"", model::Linear{.out = 3}}},
                                  {2, 9}, kOfFour);
  EXPECT_THAT(Describe(program),
              HasSubstr("transpose\norder weight\nconvolve bias relu\ntranspose\n"
                        "transpose\nbatch norm\ntranspose\nlinear bias\n"));
}

TEST(CudaLayersTest, EveryResidualPresetIsPlanned) {
  for (const char* name : {"resnet18", "resnet34", "resnet50", "resnet50-cifar"}) {
    const auto layers = *model::CheckClassifier(*model::Preset(name), {3, 64, 64}, 10);
    ASSERT_EQ(CheckPlannable(layers, CrossEntropyLoss()), absl::OkStatus());
    const LayerProgram program = PlanLayers(layers, kOfFour);
    EXPECT_EQ(program.take_loss().classes, 10);
  }
}

TEST(CudaLayersTest, ALayerThatIsReadTwiceIsNotFusedAway) {
  const auto program = PlanImages({{"", model::Flatten{}},
                                   {"a", model::Linear{.out = 8}},
                                   {"b", model::Relu{}},
                                   {"", model::Add{"a"}},
                                   {"", model::Linear{.out = 3, .bias = false}}},
                                  {1, 4, 4}, kOfFour);
  EXPECT_THAT(Lines(program),
              ElementsAre("linear bias", "relu", "sum", "linear", "cross entropy in place",
                          "linear weight gradient linear4.weight", "linear input gradient",
                          "relu gradient", "sum", "linear weight bias gradient a.bias a.weight"));
}

TEST(CudaLayersTest, AGradientThatAnotherLayerWaitsForIsNotOverwritten) {
  const auto program = PlanImages({{"", model::Flatten{}},
                                   {"a", model::Linear{.out = 8}},
                                   {"", model::Linear{.out = 8}},
                                   {"b", model::Relu{}},
                                   {"", model::Add{"a"}},
                                   {"", model::Linear{.out = 3}}},
                                  {1, 4, 4}, kOfFour);
  EXPECT_THAT(Describe(program), HasSubstr("relu gradient\nbias gradient linear2.bias\n"));
}

// The convolution and the add read the pooling with channels last; the flatten reads only the add.
TEST(CudaLayersTest, APoolingThatIsReadTwiceIsTransposedForTheFlatten) {
  const auto program = PlanImages({{"", model::Conv2d{.out = 4, .kernel = 3, .padding = 1}},
                                   {"pool", model::MaxPool2d{.kernel = 2}},
                                   {"same", model::Conv2d{.out = 4, .kernel = 1}},
                                   {"", model::Add{"pool"}},
                                   {"", model::Flatten{}},
                                   {"", model::Linear{.out = 3}}},
                                  {1, 8, 8}, kOfFour);
  EXPECT_THAT(Describe(program), HasSubstr("\npool\n"));
  EXPECT_THAT(Describe(program), HasSubstr("\ntranspose\nlinear bias\n"));
}

TEST(CudaLayersTest, AModelWithoutParametersHasNoBackward) {
  const auto program =
      PlanImages({{"", model::Dropout{0.5}}, {"", model::Flatten{}}}, {2, 3, 3}, kOfFour);
  EXPECT_THAT(Lines(program), ElementsAre("take images", "drop", "transpose", "cross entropy"));
  EXPECT_EQ(program.take_loss().gradient, kNone);
}

TEST(CudaLayersTest, ReluAtTheEndKeepsItsLogits) {
  const auto program =
      PlanImages({{"", model::Flatten{}}, {"", model::Linear{.out = 3}}, {"", model::Relu{}}},
                 {1, 2, 2}, kOfFour);
  EXPECT_NE(program.take_loss().gradient, program.take_loss().logits);
}

TEST(CudaLayersTest, ALayerThatOnlyCpusComputeIsRefusedByName) {
  const auto why = [](const model::LayerKind& kind, const model::Shape& in) {
    return std::string(
        CheckPlannable(*model::CheckShapes({{{"a", kind}}}, in), CrossEntropyLoss()).message());
  };
  EXPECT_EQ(why(model::MaxPool2d{.kernel = 16}, {1, 20, 20}), "");
  EXPECT_EQ(why(model::MaxPool2d{.kernel = 17}, {1, 20, 20}),
            "layer 'a' (maxPool2d) with a kernel of 17 (16 at most) is computed on CPUs only, and "
            "this rank computes on a GPU; set train.device to cpu");
  EXPECT_EQ(why(model::Attention{.heads = 2}, {4, 3 * 256}), "");
  for (const model::LayerKind& kind : {model::LayerKind(model::Attention{.heads = 2}),
                                       model::LayerKind(model::CausalAttention{.heads = 2})}) {
    EXPECT_THAT(why(kind, {4, 3 * 258}), HasSubstr("with heads of 129 features (128 at most)"));
  }
  EXPECT_EQ(why(model::BatchNorm{}, {8}), "");
  EXPECT_THAT(why(model::BatchNorm{.sync = true}, {8}), HasSubstr("with sync"));
  const model::CheckedLayer plugin = {"mine", model::Plugin{"/l.so"}, {4}, {4}};
  EXPECT_THAT(CheckPlannable({plugin}, CrossEntropyLoss()).message(),
              HasSubstr("layer 'mine' (plugin) is computed on CPUs only"));
  EXPECT_THAT(CheckPlannable({}, CrossEntropyLoss{.ignored = 3}).message(),
              HasSubstr("classWeights or ignoreIndex"));
}

TEST(CudaLayersTest, ALossOfOutputsTakesTargets) {
  const auto plan = [](const Loss& loss) {
    return PlanImages({{"", model::Linear{.out = 4}}}, {3, 5},
                      {.network = {.batch_size = 2, .loss = loss}});
  };
  const LayerProgram mse = plan(MseLoss());
  EXPECT_THAT(Describe(mse), HasSubstr("linear bias\nmse in place\n"));
  EXPECT_EQ(mse.labels, kNone);
  EXPECT_EQ(mse.arrays[mse.targets].size, 2 * 3 * 4);
  EXPECT_EQ(mse.take_loss().classes, 3 * 4);
  EXPECT_EQ(mse.take_loss().rows_per_sample, 1);
  const LayerProgram norm = plan(NormLoss());
  EXPECT_EQ(norm.targets, kNone);
  EXPECT_EQ(norm.arrays[norm.labels].size, 2);
  EXPECT_THAT(Describe(plan(CrossEntropyLoss{0.1})), HasSubstr("smoothed cross entropy in place"));
}

TEST(CudaLayersTest, ABlockWithRmsNormsFusesTheirAdds) {
  const std::vector<model::LayerSpec> specs = {{"wte", model::Embedding{.features = 16}},
                                               {"", model::RmsNorm{}},
                                               {"", model::Linear{.out = 48}},
                                               {"", model::Attention{2, true, /*rotary=*/true}},
                                               {"", model::Linear{.out = 16}},
                                               {"", model::Add{"wte"}},
                                               {"", model::RmsNorm{}},
                                               {"", model::Linear{.out = 8}}};
  EXPECT_THAT(Describe(PlanText(specs, Precision::kBfloat16, 16, 8)),
              HasSubstr("embed\nrms norm\nlinear bias\nrotate\nfused attend\nlinear bias\n"
                        "add rms norm\nlinear bias\n"));
  EXPECT_THAT(Describe(PlanText(specs, Precision::kBfloat16, 16, 8)),
              HasSubstr("\nfused attend gradient\nrotate gradient\n"));
}

TEST(CudaLayersTest, AttentionWithoutAMaskIsOurs) {
  const std::vector<model::LayerSpec> specs = {{"", model::Embedding{.features = 48}},
                                               {"", model::Attention{.heads = 2}},
                                               {"", model::Softmax{}},
                                               {"", model::Linear{.out = 8}}};
  EXPECT_THAT(Describe(PlanText(specs, Precision::kBfloat16, 16, 8)),
              HasSubstr("convert to float\nattend all\nconvert to bf16\nsoftmax\n"));
}

TEST(CudaLayersTest, BranchesAddUpTheirGradients) {
  const LayerProgram program = PlanImages({{"a", model::Conv2d{.out = 2, .kernel = 1}},
                                           {"b", model::Relu{}},
                                           {"c", model::Conv2d{.out = 2, .kernel = 1}, "a"},
                                           {"", model::Add{"b"}},
                                           {"", model::Flatten{}},
                                           {"", model::Linear{.out = 3}}},
                                          {1, 3, 3}, kOfFour);
  const std::vector<std::string> lines = Lines(program);
  EXPECT_EQ(lines[0], "convolve bias");  // without the ReLU, since another layer takes its sum
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "sum"), 2) << Describe(program);
}

TEST(CudaLayersTest, ScratchIsNeededByItsOperationAlone) {
  LayerProgramOptions options = kOfFour;
  options.scratch_bytes = [](const LayerProgram&, const OperationKind& kind) {
    return std::holds_alternative<op::BiasGradient>(kind) ? int64_t{1000} : 0;
  };
  const LayerProgram program = PlanImages(model::MlpPreset(), {1, 28, 28}, options);
  int with_scratch = 0;
  for (size_t i = 0; i < program.operations.size(); ++i) {
    const ArrayId scratch = program.operations[i].scratch;
    if (scratch == kNone) continue;
    ++with_scratch;
    EXPECT_EQ(program.arrays[scratch].size, 1000);
    EXPECT_EQ(program.arrays[scratch].first, static_cast<int>(i));
    EXPECT_EQ(program.arrays[scratch].last, static_cast<int>(i));
  }
  EXPECT_EQ(with_scratch, 2);
}

bool IsGiven(const LayerProgram& program, size_t array) {
  const int id = static_cast<int>(array);
  return id == program.images || id == program.tokens || id == program.labels ||
         id == program.samples || id == program.targets;
}

void ExpectLifetimesToBeKept(const LayerProgram& program) {
  const ArenaPlan plan = PlanArena(program);
  for (size_t i = 0; i < program.arrays.size(); ++i) {
    const ProgramArray& a = program.arrays[i];
    ASSERT_LE(a.first, a.last) << i;
    ASSERT_LT(a.last, static_cast<int>(program.operations.size()));
    for (size_t k = 0; k < i && !IsGiven(program, i); ++k) {
      const ProgramArray& b = program.arrays[k];
      if (IsGiven(program, k)) continue;
      if (a.last < b.first || b.last < a.first) continue;
      const int64_t a_end = plan.offsets[i] + a.size * BytesOf(a.stored, program.precision);
      const int64_t b_end = plan.offsets[k] + b.size * BytesOf(b.stored, program.precision);
      EXPECT_TRUE(a_end <= plan.offsets[k] || b_end <= plan.offsets[i]) << i << " and " << k;
    }
  }
}

TEST(CudaLayersTest, ArraysThatAreNeededTogetherLieApart) {
  ExpectLifetimesToBeKept(PlanImages(model::CnnPreset(), {1, 28, 28}, kOfFour));
  const auto specs = model::Gpt({.blocks = 3, .heads = 2, .features = 16});
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16}) {
    const LayerProgram program = PlanText(specs, precision);
    ExpectLifetimesToBeKept(program);
    int64_t bytes = 0;
    for (const ProgramArray& array : program.arrays) {
      bytes += array.size * BytesOf(array.stored, precision);
    }
    EXPECT_LT(PlanArena(program).bytes, bytes);
  }
}

// Bytes that a training of GPT-2 124M in bf16 needs on a card. They are arrays, cuDNN's scores of
// attention backward, weights, gradients and AdamW's moments in float32, and weights in bf16.
// Scratch and plans' workspaces, some tens of megabytes, are not counted.
int64_t TrainingBytesOfGpt2(int batch) {
  const LayerProgram program =
      PlanLayers(*model::CheckLanguageModel(*model::Preset("gpt2-124m"), 1024, 50257),
                 {.network = {.batch_size = batch, .precision = Precision::kBfloat16}});
  const int64_t scores = int64_t{2} * batch * 12 * 1024 * 1024;
  return PlanArena(program).bytes + scores + program.layout.size * (4 * 4 + 2);
}

TEST(CudaLayersTest, Gpt2FitsAnH100AtTheBatchItIsMeasuredWith) {
  EXPECT_LT(TrainingBytesOfGpt2(64), int64_t{30} << 30);
  EXPECT_GT(TrainingBytesOfGpt2(64), int64_t{20} << 30);
}

// Twice the batch also fits the 78 GiB that such a card has free, beside data and libraries.
TEST(CudaLayersTest, Gpt2FitsAnH100AtTwiceTheBatch) {
  EXPECT_LT(TrainingBytesOfGpt2(128), int64_t{60} << 30);
}

}  // namespace
}  // namespace dp::engine::cuda
