#pragma once

#include <memory>
#include <vector>

#include "worker/engine/device/cpu_layer.h"
#include "worker/engine/device/device.h"

namespace dp::engine {

// The layers of a model in a row, each reading what the one before wrote; softmax cross-entropy at
// the end. Keeps its own copy of labels and input, so a Batch need not outlive Forward.
class CpuNetwork : public Network {
 public:
  // Throws dnnl::error for what oneDNN cannot do.
  CpuNetwork(CpuStream& cpu, absl::Span<const model::CheckedLayer> layers, int batch_size,
             uint64_t seed, absl::Span<const float> values, absl::Span<float> gradients);

  BatchResult Forward(const Batch& batch, Mode mode) override;
  void Backward(float scale, const GradientReady& ready) override;
  void ReadLogits(absl::Span<float> logits) const override;

 private:
  absl::Span<const float> logits() const;

  const int batch_size_;
  const int classes_;
  Activation input_;
  std::vector<std::unique_ptr<CpuLayer>> layers_;
  std::vector<int> parameter_counts_;  // of each of layers_
  std::unique_ptr<Formatted> output_;  // what the last layer gives, in plain order
  std::unique_ptr<Formatted> output_gradient_;
  std::vector<int32_t> labels_;  // of the last Forward's samples
};

}  // namespace dp::engine
