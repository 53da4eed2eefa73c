#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/device/cuda/testing/cuda_on_host_tuning.h"
#include "worker/engine/device/testing/device_conformance.h"

// The suites of every device, over the CUDA device with its kernels run on the host. They test
// layer programs, addresses, lifetimes and the numbers of steps without a GPU. They do not test the
// libraries and graphs.

namespace dp::engine {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

DeviceUnderTest OnHost() {
  return {.name = "CUDA device on the host", .open = [] { return OpenCuda(0); }};
}

DeviceUnderTest OnHostInBf16() {
  DeviceUnderTest device = OnHost();
  device.name += " in bf16";
  device.precision = Precision::kBfloat16;
  device.tolerance = ToleranceOf(device.precision);
  return device;
}

DeviceUnderTest OnHostInTf32() {
  DeviceUnderTest device = OnHost();
  device.name += " in TF32";
  device.precision = Precision::kTf32;
  device.tolerance = ToleranceOf(device.precision);
  return device;
}

const model::LayerSpec kConvolution = {.name = "",
                                       .kind = model::Conv2d{.out = 4, .kernel = 4, .padding = 0}};
const model::LayerSpec kLinear = {.name = "", .kind = model::Linear{.out = 4}};

// The logits of one image, by one layer that computes products.
std::vector<float> LogitsIn(Precision precision, bool convolves) {
  const model::LayerSpec flatten = {.name = "", .kind = model::Flatten{}};
  std::vector<model::LayerSpec> specs = {flatten, kLinear};
  if (convolves) specs = {kConvolution, flatten};
  const auto layers = model::CheckClassifier(specs, {1, 4, 4}, 4);
  const ParameterLayout layout = LayOut(*layers);
  const auto device = OpenCuda(0);
  const auto values = *(*device)->Allocate(layout.size);
  const auto gradients = *(*device)->Allocate(layout.size);
  std::vector<float> initial(layout.size), images(16), logits(4);
  Initialize(layout, 1, absl::MakeSpan(initial));
  for (int i = 0; i < 16; ++i) images[i] = 1.0f / static_cast<float>(i + 3);
  (*device)->Write(initial, values->span());
  const auto network = *(*device)->Compile(*layers, {.batch_size = 1, .precision = precision},
                                           values->span(), gradients->span());
  const std::vector<int32_t> labels = {1};
  const std::vector<int64_t> samples = {0};
  network->Forward({.images = images, .labels = labels, .samples = samples, .count = 1},
                   Mode::kEvaluate);
  network->ReadLogits(absl::MakeSpan(logits));
  return logits;
}

TEST(TuningTest, PlansAreTimedOnNumbersLikeThoseOfAStep) {
  const cuda::on_host::TunedPlans before = cuda::on_host::Tuned();
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16})
    for (const bool convolves : {false, true}) (void)LogitsIn(precision, convolves);
  EXPECT_GE(cuda::on_host::Tuned().all, before.all + 4);
  EXPECT_EQ(cuda::on_host::Tuned().on_constants, before.on_constants);
}

TEST(PrecisionTest, Tf32RoundsTheFactorsOfProductsAndNothingMore) {
  for (const bool convolves : {false, true}) {
    const std::vector<float> full = LogitsIn(Precision::kFloat32, convolves);
    const std::vector<float> tf32 = LogitsIn(Precision::kTf32, convolves);
    EXPECT_NE(full, tf32) << convolves;
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(tf32[i], full[i], 0x1p-9f) << convolves;
  }
}

// The plans of a model of two linear layers and an attention.
std::vector<std::string> PlansOf(const NetworkOptions& options) {
  const auto layers = model::CheckLanguageModel(
      model::Gpt({.blocks = 1, .heads = 2, .features = 16}), /*tokens=*/4, /*vocabulary=*/16);
  const ParameterLayout layout = LayOut(*layers);
  const auto device = OpenCuda(0);
  const auto values = *(*device)->Allocate(layout.size);
  const auto gradients = *(*device)->Allocate(layout.size);
  const size_t before = cuda::on_host::PlanNames().size();
  const auto network = (*device)->Compile(*layers, options, values->span(), gradients->span());
  EXPECT_TRUE(network.ok()) << network.status();
  const std::vector<std::string> names = cuda::on_host::PlanNames();
  return {names.begin() + static_cast<std::ptrdiff_t>(before), names.end()};
}

TEST(DeterminismTest, AtomicSumsAreTriedOnlyWhereTheJobTakesOtherBits) {
  NetworkOptions options = {.batch_size = 2, .precision = Precision::kBfloat16};
  EXPECT_THAT(PlansOf(options), Not(Contains(HasSubstr("atomic"))));
  options.deterministic = false;
  EXPECT_THAT(PlansOf(options), Contains(HasSubstr("deterministic or atomic")));
}

// The weight gradient of a layer is a product over tokens, 'tn'; that of its input is 'nn'.
TEST(CollectivesTest, BackwardProductsLeaveTheBlocksOfCollectivesFree) {
  const auto gemms = [](const NetworkOptions& options, const std::string& form) {
    std::vector<std::string> found;
    for (const std::string& each : PlansOf(options)) {
      if (absl::StartsWith(each, "gemm") && absl::StrContains(each, form)) found.push_back(each);
    }
    return found;
  };
  const NetworkOptions alone = {.batch_size = 2};
  const NetworkOptions with_peers = {.batch_size = 2, .collective_blocks = 16};
  for (const std::string form : {" tn ", " nn "}) {
    EXPECT_THAT(gemms(with_peers, form), AllOf(Not(IsEmpty()), Each(HasSubstr(" sms=116"))));
    EXPECT_THAT(gemms(alone, form), AllOf(Not(IsEmpty()), Each(Not(HasSubstr("sms=")))));
  }
  EXPECT_THAT(gemms(with_peers, " nt "), AllOf(Not(IsEmpty()), Each(Not(HasSubstr("sms=")))));
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(OnHost, DeviceConformance, ::testing::Values(OnHost()));
INSTANTIATE_TEST_SUITE_P(OnHost, LayerConformance, ::testing::Values(OnHost()));
INSTANTIATE_TEST_SUITE_P(OnHost, LayerTwinConformance,
                         ::testing::Values(OnHost(), OnHostInBf16(), OnHostInTf32()));
INSTANTIATE_TEST_SUITE_P(OnHost, BatchNormConformance, ::testing::Values(OnHost()));
INSTANTIATE_TEST_SUITE_P(OnHost, LanguageModelConformance, ::testing::Values(OnHost()));
INSTANTIATE_TEST_SUITE_P(OnHost, LanguageStepConformance,
                         ::testing::Values(OnHost(), OnHostInBf16(), OnHostInTf32()));
INSTANTIATE_TEST_SUITE_P(OnHost, TwinConformance, ::testing::Values(OnHost(), OnHostInBf16()));

}  // namespace dp::engine
