#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/model/shape_check.h"
#include "worker/engine/device/cpu/cpu_stream.h"
#include "worker/engine/device/device.h"

namespace dp::engine {

// One layer of a CpuNetwork, or one layer with the ReLU after it. Its primitives, memory and
// reorders are made once; a step only runs them. Factories throw dnnl::error, which
// CpuDevice::Compile catches.
class CpuLayer {
 public:
  virtual ~CpuLayer() = default;

  virtual void Forward(const Batch& batch, Mode mode) = 0;
  // Turns the gradient of the output into the gradient of the input, if the input has one. Calls
  // `parameters_ready` as soon as the gradients of its own parameters are complete.
  virtual void Backward(const std::function<void()>& parameters_ready) = 0;

  const Activation& out() const { return out_; }

 protected:
  Activation out_;
};

// Where the parameters of one layer lie in the flat arrays. Null where it has none.
struct ParameterViews {
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* weight_gradient = nullptr;
  float* bias_gradient = nullptr;
  // A batch norm has these, too. Its Backward writes what the batch measured.
  const float* running_mean = nullptr;
  const float* running_variance = nullptr;
  float* measured_mean = nullptr;
  float* measured_variance = nullptr;
  // Those of a plug-in's layer, in its own order, instead of all others.
  std::vector<const float*> plugin = {};
  std::vector<float*> plugin_gradients = {};
};

// Which half of the ReLU that follows a layer the layer does itself. The positive maximum of a
// window is the same before and after a ReLU. If pooling follows, the pooling layer therefore does
// the backward half, on its smaller output.
enum class FusedRelu { kNone, kForward, kBoth };

// The decisions of the network around a layer. Each kind of layer reads those that concern it.
struct CpuLayerOptions {
  ParameterViews parameters = {};
  FusedRelu relu = FusedRelu::kNone;  // of a convolution, a linear layer or a batch norm
  // The factors of a convolution's or linear layer's products are rounded to bfloat16.
  bool bfloat16 = false;
  // A pooling also does the backward half of the ReLU before it.
  bool pooled_relu = false;
  // A later layer has already written its part of the gradient of an embedding's weight.
  bool tied = false;
  // For a batch norm over all ranks.
  RankExchange exchange = {};
  // Masks of a dropout depend only on this, Batch::draw and the sample's number, so the split into
  // ranks does not change them. Differs between the dropout layers of a network.
  uint64_t seed = 0;
};

// The arguments that all factories below take. `in` is the output of the layer that gives the
// input.
struct CpuLayerInput {
  CpuStream& cpu;
  const model::CheckedLayer& layer;
  int batch_size;
  const Activation& in;
  CpuLayerOptions options = {};
};

// One factory for each kind; the first argument is `input.layer.kind`. Add has MakeCpuAdd.
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Linear&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Conv2d&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Relu&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::MaxPool2d&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Flatten&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Dropout&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Embedding&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Positions&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::LayerNorm&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Gelu&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::CausalAttention&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::TiedLinear&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Conv1d&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::AvgPool2d&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::AdaptiveAvgPool2d&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::RmsNorm&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::BatchNorm&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuFloat64BatchNorm(const model::BatchNorm&,
                                                  const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Silu&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Tanh&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Sigmoid&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Softmax&, const CpuLayerInput& input);
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Attention&, const CpuLayerInput& input);
// Notes in CpuStream::failure if the plug-in cannot make it.
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Plugin&, const CpuLayerInput& input);

// Adds the output of an earlier layer, the source. The gradient goes to both inputs: to the giver
// of the input in Backward, as in every layer, and to the source in PassToSource. Call PassToSource
// when all other readers of the source have written its gradient.
class CpuAdd : public CpuLayer {
 public:
  // `first`: the source's gradient holds nothing yet, and is overwritten.
  virtual void PassToSource(bool first) = 0;
};
std::unique_ptr<CpuAdd> MakeCpuAdd(const CpuLayerInput& input, const Activation& source);

}  // namespace dp::engine
