#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "worker/engine/device/cpu/cpu_layer.h"
#include "worker/engine/device/device.h"

namespace dp::engine {

// The layers of a model in a row. Each reads its predecessor's output; an add also reads an earlier
// layer's. Softmax cross-entropy follows, over each row of the last layer's output. Keeps its own
// copy of labels and input, so a Batch need not outlive Forward.
class CpuNetwork : public Network {
 public:
  // Throws dnnl::error for what oneDNN cannot do.
  CpuNetwork(CpuStream& cpu, absl::Span<const model::CheckedLayer> layers, int batch_size,
             uint64_t seed, absl::Span<const float> values, absl::Span<float> gradients);

  BatchResult Forward(const Batch& batch, Mode mode) override;
  void Backward(float scale, const GradientReady& ready) override;
  void ReadLogits(absl::Span<float> logits) const override;

 private:
  std::unique_ptr<CpuLayer> MakeLayer(const CpuLayerInput& input);
  absl::Span<const float> logits() const;

  const int batch_size_;
  const int classes_;
  const int64_t rows_of_sample_;  // each with a label
  Activation input_;
  std::vector<std::unique_ptr<CpuLayer>> layers_;
  std::vector<int> parameter_counts_;          // of each of layers_
  std::vector<std::vector<CpuAdd*>> readers_;  // the adds that read the output of each of layers_
  absl::flat_hash_map<std::string, size_t> places_;  // in layers_
  std::unique_ptr<Formatted> output_;                // the output of the last layer, in plain order
  std::unique_ptr<Formatted> output_gradient_;
  std::vector<int32_t> labels_;  // of the last Forward, by row
};

}  // namespace dp::engine
