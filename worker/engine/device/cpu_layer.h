#pragma once

#include <functional>
#include <memory>

#include "base/model/shape_check.h"
#include "worker/engine/device/cpu_stream.h"
#include "worker/engine/device/device.h"

namespace dp::engine {

// One layer of a CpuNetwork, or one with the ReLU after it. Its primitives, memory and reorders are
// made once; a step only runs them. Factories throw dnnl::error; CpuDevice::Compile catches it.
class CpuLayer {
 public:
  virtual ~CpuLayer() = default;

  virtual void Forward(const Batch& batch, Mode mode) = 0;
  // Turns the gradient of the output into that of the input, if that has one. Calls
  // `parameters_ready` before, as soon as the gradients of its own parameters are complete.
  virtual void Backward(const std::function<void()>& parameters_ready) = 0;

  const Activation& out() const { return out_; }

 protected:
  Activation out_;
};

// Where the parameters of one layer lie in the flat arrays. Null when it has none, bias when it has
// no bias.
struct ParameterViews {
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* weight_gradient = nullptr;
  float* bias_gradient = nullptr;
};

// What every factory below takes. `in` is the activation that the layer before gives.
struct CpuLayerInput {
  CpuStream& cpu;
  const model::CheckedLayer& layer;
  int batch_size;
  const Activation& in;
};

// Which half of the ReLU that follows a layer the layer does itself. The maximum of a window that
// is positive is the same before and after a ReLU, so where pooling follows, the gradient is set to
// zero on the smaller, pooled side: the pooling layer does that half.
enum class FusedRelu { kNone, kForward, kBoth };

std::unique_ptr<CpuLayer> MakeCpuConv2d(const CpuLayerInput& input, const ParameterViews& views,
                                        FusedRelu relu);
// Also of a TiedLinear, whose weight is the embedding's.
std::unique_ptr<CpuLayer> MakeCpuLinear(const CpuLayerInput& input, const ParameterViews& views,
                                        FusedRelu relu);
std::unique_ptr<CpuLayer> MakeCpuRelu(const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuGelu(const CpuLayerInput& input);
// `relu_gradient`: also does the backward half of the ReLU before it.
std::unique_ptr<CpuLayer> MakeCpuMaxPool2d(const CpuLayerInput& input, bool relu_gradient);
std::unique_ptr<CpuLayer> MakeCpuFlatten(const CpuLayerInput& input);
// Masks depend on `seed`, Batch::draw and the sample's number alone, so the split into ranks does
// not change them. `seed` differs between the dropout layers of a network.
std::unique_ptr<CpuLayer> MakeCpuDropout(const CpuLayerInput& input, uint64_t seed);

// `tied`: a later layer has written its part of the weight's gradient before.
std::unique_ptr<CpuLayer> MakeCpuEmbedding(const CpuLayerInput& input, const ParameterViews& views,
                                           bool tied);
std::unique_ptr<CpuLayer> MakeCpuPositions(const CpuLayerInput& input, const ParameterViews& views);
std::unique_ptr<CpuLayer> MakeCpuLayerNorm(const CpuLayerInput& input, const ParameterViews& views);
std::unique_ptr<CpuLayer> MakeCpuCausalAttention(const CpuLayerInput& input);

// Adds what an earlier layer gives. The gradient goes to both: to the layer before in Backward, as
// every layer's does, and to the other in AddToSource, once all that else reads it has written its
// gradient.
class CpuAdd : public CpuLayer {
 public:
  virtual void AddToSource() = 0;
};
std::unique_ptr<CpuAdd> MakeCpuAdd(const CpuLayerInput& input, const Activation& source);

}  // namespace dp::engine
