#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "worker/engine/device/device.h"
#include "worker/engine/device/testing/conformance_cases.h"
#include "worker/engine/device/testing/tolerance.h"

// The suites that every device must pass; the CPU is the definition. Three suites test a device by
// itself, and one compares it with the CPU. A test program links them and names its devices:
//
//   INSTANTIATE_TEST_SUITE_P(Cpu, DeviceConformance, ::testing::Values(OneCpuThread()));

namespace dp::engine {

struct DeviceUnderTest {
  std::string name;
  std::function<absl::StatusOr<std::unique_ptr<Device>>()> open;
  Precision precision = Precision::kFloat32;
  // How far values may be from the CPU's. With float32 each value counts, as a share of the largest
  // of its kind. With any other precision, all of a kind count together, as a share of their
  // Euclidean norm.
  double tolerance = ToleranceOf(Precision::kFloat32);
};
inline void PrintTo(const DeviceUnderTest& device, std::ostream* out) { *out << device.name; }

inline DeviceUnderTest OneCpuThread() {
  return {.name = "one CPU thread", .open = [] { return OpenCpu(1); }};
}

// Skips its tests, with the reason, if the device is missing.
class OnDevice : public ::testing::TestWithParam<DeviceUnderTest> {
 protected:
  void SetUp() override {
    const absl::Status opened = GetParam().open().status();
    if (absl::IsUnavailable(opened) || absl::IsUnimplemented(opened)) {
      GTEST_SKIP() << "no " << GetParam().name << ": " << opened.message();
    }
    ASSERT_TRUE(opened.ok()) << opened;
  }
};

class DeviceConformance : public OnDevice {};  // float32
// A model for each kind and setting of a layer, and for each loss.
class LayerConformance : public OnDevice {};      // float32
class LayerTwinConformance : public OnDevice {};  // any precision
class BatchNormConformance : public OnDevice {};
class LanguageModelConformance : public OnDevice {};  // float32
class LanguageStepConformance : public OnDevice {};   // any precision
class TwinConformance : public OnDevice {};           // any precision

// A model with its arrays and one batch, on one device, all from fixed seeds.
class Bench {
 public:
  struct Model {
    std::vector<model::CheckedLayer> layers;
    int batch_size = 1;
    int classes = 1;
    bool of_tokens = false;
    Loss loss = CrossEntropyLoss();
  };
  Bench(const DeviceUnderTest& device, const Model& model);

  BatchResult Forward(Mode mode = Mode::kTrain, uint64_t draw = 0);
  // Returns the parameters in the order in which they became ready.
  std::vector<int> Backward(float scale = 1);
  void BackwardThen(const GradientReady& ready) { network_->Backward(1, ready); }
  // Forward, then Backward; returns the gradients.
  std::vector<float> ForwardGradients();
  std::vector<float> Logits();
  std::vector<float> TrainBySgd(int steps);
  std::vector<float> TrainByAdamW(int steps);

  // The slope of the loss sum in the value at `i`, by central difference with this step.
  double Slope(int64_t i, float step);
  void ExpectGradientsAreSlopes(float step, double tolerance);

  std::vector<float> Values() const { return Read(*values_); }
  std::vector<float> Gradients() const { return Read(*gradients_); }
  void SetValues(absl::Span<const float> values);
  void SetGradients(float value);

  const ParameterLayout& layout() const { return layout_; }
  int64_t labels() const { return static_cast<int64_t>(labels_.size()); }
  size_t sample_size() const { return images_.size() / samples_.size(); }
  Device& device() { return *device_; }
  Network& network() { return *network_; }
  absl::Span<float> values() { return values_->span(); }
  absl::Span<float> gradients() { return gradients_->span(); }

 private:
  std::vector<float> Read(Array& array) const;
  std::vector<float> Train(const OptimizerOptions& options, int steps);

  const Model model_;
  const ParameterLayout layout_;
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Array> values_;
  const std::unique_ptr<Array> gradients_;

 public:
  int count_;  // the rest of the batch is padding
  std::vector<float> images_;
  std::vector<int32_t> labels_;
  std::vector<int64_t> samples_;
  std::vector<float> targets_;  // probabilities

 private:
  std::unique_ptr<Network> network_;
};

Bench::Model ModelOf(const LayerCase& layer_case);

// Compares a forward and a backward with the CPU's. One sample of the batch is padding.
void ExpectEqualToTheCpu(const DeviceUnderTest& device, const Bench::Model& model);

// A linear layer at the end has ten outputs by default.
Bench::Model ImageModel(const std::vector<model::LayerSpec>& specs, const model::Shape& image);
Bench::Model TextModel(const std::vector<model::LayerSpec>& specs);
// Two convolutions, one of them with a stride and without a bias, pooling, two linear layers.
std::vector<model::LayerSpec> SmallCnn();
std::vector<model::LayerSpec> SmallGpt();
inline const model::Shape kSmallImage = {2, 10, 10};
inline constexpr int kBatchSize = 6;
inline constexpr int kTextBatch = 3;
inline constexpr int kTokens = 5;
inline constexpr int kVocabulary = 7;

}  // namespace dp::engine
