#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "worker/engine/device/cpu/cpu_devices.h"
#include "worker/engine/device/cpu/cpu_layer.h"
#include "worker/engine/device/device.h"

namespace dp::engine {

// The layers of a model in a row. Each reads the output of a layer above; an add reads two. The
// loss follows, over each row of the last layer's output. Keeps its own copy of labels, targets and
// input, so a Batch need not outlive Forward.
//
// A layer that several read gets the sum of their gradients. The first reader writes into the
// layer's own gradient. Every other one has memory of its own, which is added before the layer's
// backward; then each add that names the layer adds its part.
//
// Layers may be on several devices, each a thread of its own. A layer that reads from another
// device has a border: a copy of the values, with a gradient that moves back. Layers run one after
// the other all the same, and gradients add up in the same order. The bits are thus those of one
// device.
class CpuNetwork : public Network {
 public:
  // Throws dnnl::error for what oneDNN cannot do.
  CpuNetwork(CpuStream& cpu, absl::Span<const model::CheckedLayer> layers,
             const NetworkOptions& options, absl::Span<const float> values,
             absl::Span<float> gradients);

  BatchResult Forward(const Batch& batch, Mode mode) override;
  void Backward(float scale, const GradientReady& ready) override;
  void ReadLogits(absl::Span<float> logits) const override;
  std::vector<DeviceLoad> loads() const override;
  ~CpuNetwork() override;

 private:
  // Where the gradients of one layer's output come from.
  struct Readers {
    bool own = false;                // a reader writes into the layer's own gradient
    std::vector<dnnl::memory> more;  // the gradients of the other readers
    std::vector<size_t> adds;        // the places of the adds that name the layer
    dnnl::binary sum;  // adds one of `more` to the layer's own; empty if there are none
  };

  // A layer's output as a layer on another device sees it.
  struct Border {
    Activation home;
    Activation copy;

    void MoveValues() const;
    void MoveGradient() const;
    // Adds the gradient to home's; overwrites that if `first`.
    void AddGradient(bool first) const;
  };
  // A layer with what moves to it.
  struct Placed {
    std::unique_ptr<CpuLayer> layer;
    int device = 0;
    std::optional<Border> input;   // if it comes from another device
    std::optional<Border> source;  // of an add, the same
    int parameters = 0;            // without statistics
  };

  std::unique_ptr<CpuLayer> MakeLayer(const CpuLayerInput& input, Placed& placed);
  // The output of the layer at `place`, with the gradient for one more reader.
  Activation Read(size_t place);
  // `home`, which is on the device `from`, as `placed` sees it. Sets `border` if a copy is needed.
  const Activation& Cross(const Activation& home, int from, const Placed& placed,
                          std::optional<Border>& border) const;
  void SumGradients(size_t place);
  void PassStatistics(float scale, int next, const GradientReady& ready);
  LossInput loss_input() const;
  absl::Span<const float> logits() const;

  CpuStream& cpu_;
  const int batch_size_;
  const Loss loss_;
  const int64_t rows_of_sample_;  // each with a label, or with targets
  const int columns_;             // of a row of the output: classes, for cross-entropy
  const int64_t statistic_count_;
  const absl::Span<float> measurements_;  // the gradients' part for statistics
  CpuDevices devices_;
  Activation input_;
  std::vector<Placed> layers_;
  std::vector<Readers> readers_;                     // of each of layers_
  absl::flat_hash_map<std::string, size_t> places_;  // in layers_, by name
  std::unique_ptr<Formatted> output_;                // the output of the last layer, in plain order
  std::unique_ptr<Formatted> output_gradient_;
  // Those of the last Forward, by row.
  int64_t rows_ = 0;
  float loss_factor_ = 1;
  std::vector<int32_t> labels_;
  std::vector<float> targets_;
  int64_t samples_ = 0;  // of all Forwards
};

}  // namespace dp::engine
