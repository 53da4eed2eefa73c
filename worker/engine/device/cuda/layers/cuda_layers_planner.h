#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "worker/engine/device/cuda/layers/cuda_layers.h"

namespace dp::engine::cuda {

// Makes one LayerProgram. It emits forward operations layer by layer; each layer leaves behind a
// function that emits its backward operations. The methods stand in cuda_layers_planner.cc and, by
// kind of layer, in cuda_layers_dense.cc, cuda_layers_image.cc and cuda_layers_text.cc. Used once.
class LayerPlanner {
 public:
  LayerPlanner(absl::Span<const model::CheckedLayer> layers, const LayerProgramOptions& options);

  LayerProgram Plan();

 private:
  // A layer's output, on its way through the plan.
  struct Value {
    ArrayId array = kNone;
    model::Shape shape;
    bool needs_gradient = false;  // an earlier layer has parameters
    int readers = 0;
    // The input of the GELU that gave this value, if a product may take the gradient through the
    // GELU.
    ArrayId gelu = kNone;
    bool through_gelu = false;  // `gradients` are of `gelu`
    bool bias_summed = false;   // the bias of the layer that gave it has its gradient
    bool plain = false;         // in PyTorch's order, whatever the shape
    // Their sum is the gradient of the value once all its readers have been passed.
    std::vector<ArrayId> gradients;

    // Whether memory has another order than PyTorch's.
    bool channels_last() const {
      return !plain && shape.size() == 3 && shape[0] > 1 && shape[1] * shape[2] > 1;
    }
    int64_t places() const { return shape.size() == 3 ? shape[1] * shape[2] : 1; }
    int64_t channels() const { return channels_last() ? shape[0] : 1; }
  };
  using ValueId = int;

  // --- Arrays, values and operations.
  ArrayId NewArray(Stored stored, int64_t size);
  ArrayId NewActivation(int64_t size) { return NewArray(Stored::kActivation, size); }
  ValueId NewValue(ArrayId array, const model::Shape& shape, bool needs_gradient);
  int64_t SizeOf(ValueId value) const;
  int64_t batch() const { return program_.batch_size; }
  bool bfloat16() const { return program_.precision == Precision::kBfloat16; }

  // `arrays` are all that the operation reads or writes; kNone among them is ignored.
  void Emit(OperationKind kind, std::initializer_list<ArrayId> arrays,
            std::initializer_list<int> completes = {});

  int ParameterOf(const std::string& name) const;

  template <typename Kind>
  bool IsKind(size_t i) const {
    return i < layers_.size() && std::holds_alternative<Kind>(layers_[i].kind);
  }
  // Makes `value` the output of layer `i`.
  void Give(size_t i, ValueId value);
  int ReadersOf(size_t i) const;
  // Whether the next layer takes the output of layer `i` as its input.
  bool GivesToNext(size_t i) const {
    return i + 1 < layers_.size() && layers_[i + 1].giver == static_cast<int>(i);
  }
  // Whether the next layer alone reads the output of layer `i`.
  bool Chained(size_t i) const { return GivesToNext(i) && ReadersOf(i) == 1; }

  // --- Gradients.
  void AddGradient(ValueId value, ArrayId gradient);
  ArrayId PopGradient(ValueId value);
  // Whether no value holds this gradient, so that it may be overwritten.
  bool Free(ArrayId gradient) const;
  // Gives the sum of the gradients of `value`, all of whose readers must have been passed.
  ArrayId TakeGradient(ValueId value);

  // --- The beginning.
  ValueId TakeInput();

  // --- Layers. Each method returns how many layers it has planned, from `i` on.
  size_t PlanLayer(size_t i, ValueId in);
  size_t PlanKind(const model::Linear& linear, size_t i, ValueId in);
  // The function behind linear layer `i` that the library computes with the product.
  Function FusedFunction(size_t i) const;
  size_t PlanKind(const model::TiedLinear& tied, size_t i, ValueId in);
  int64_t Rows(ValueId value) const { return SizeOf(value) / values_[value].shape.back(); }
  void PlanLinear(const LinearSize& size, int weight, int bias, Function function, size_t last,
                  ValueId in, bool complete_weight);

  // Gives the gradient of the input of a linear layer's function. For a ReLU also the bias's
  // gradient.
  ArrayId FunctionGradient(ValueId given, Function function, ArrayId out, ArrayId aux,
                           const LinearSize& size, int bias);
  ArrayId ReluBiasGradient(ArrayId out, ArrayId gradient, int64_t rows, int64_t columns, int bias);
  ArrayId ApplyGradient(Function function, ArrayId saved, ArrayId gradient, int64_t size);
  void InputGradient(const LinearSize& size, ArrayId gradient, int weight, ValueId in);
  size_t PlanKind(const model::Conv2d& conv, size_t i, ValueId in);
  size_t PlanKind(const model::Conv1d& conv, size_t i, ValueId in);
  // How a convolution does the ReLU behind it.
  struct ConvolutionRelu {
    bool forward = false;
    bool backward = false;
  };
  // Gives the output of convolution `i`, of shape `out`.
  ValueId PlanConvolution(const Window& window, size_t i, ValueId in, const model::Shape& out,
                          ConvolutionRelu relu);
  template <model::ElementFunction Kind>
  size_t PlanKind(const Kind& kind, size_t i, ValueId in) {
    return PlanFunction(FunctionOf(kind), i, in);
  }
  size_t PlanFunction(Function function, size_t i, ValueId in);
  size_t PlanKind(const model::BatchNorm& norm, size_t i, ValueId in);
  size_t PlanKind(const model::AvgPool2d& pool, size_t i, ValueId in);
  size_t PlanKind(const model::AdaptiveAvgPool2d&, size_t i, ValueId in);
  void PlanMeanPool(const model::PoolAxis& rows, const model::PoolAxis& columns, size_t i,
                    ValueId in);
  size_t PlanKind(const model::MaxPool2d& pool, size_t i, ValueId in);
  // Whether pooling layer `i` alone reads a ReLU that alone reads a convolution.
  bool FollowsConvolutionAndRelu(size_t i) const;
  // Takes the gradient of such a pooling's output through the ReLU, and sums the convolution's bias
  // there. There elements are fewest, and each goes to one place before the pooling. Returns false
  // if it did nothing.
  bool PassReluOfPooled(size_t i, ValueId given, ArrayId gradient);
  size_t PlanKind(const model::Flatten&, size_t i, ValueId in);

  // Gives the same array under another shape if `in` already has PyTorch's order.
  ValueId InPlainOrder(ValueId in, const model::Shape& shape);
  // Gives `in`, an array in PyTorch's order, as images of one row, with channels last.
  ValueId AsOneRow(ValueId in);
  // Gives `in` transposed, under another shape.
  ValueId Transposed(ValueId in, const MatrixRun& there, const model::Shape& shape);
  size_t PlanKind(const model::Dropout& dropout, size_t i, ValueId in);
  size_t PlanKind(const model::Embedding&, size_t i, ValueId);
  bool Tied(const std::string& embedding) const;
  void PositionsGradient(ArrayId gradient, int64_t size, int weight);
  size_t PlanKind(const model::Positions&, size_t i, ValueId in);
  size_t PlanKind(const model::LayerNorm&, size_t i, ValueId in);
  size_t PlanKind(const model::RmsNorm&, size_t i, ValueId in);
  size_t PlanKind(const model::Softmax&, size_t i, ValueId in);

  // Plans the norm of the array of `in`. Unless `added` is kNone, the norm first writes `from` +
  // `added` to that array; otherwise `from` is that array.
  void PlanNorm(size_t i, ValueId in, ArrayId added, ArrayId from);
  size_t PlanKind(const model::CausalAttention& attention, size_t i, ValueId in);
  size_t PlanKind(const model::Attention& attention, size_t i, ValueId in);

  // These convert where attention is not the library's: ours computes on floats.
  ArrayId AsAttended(ArrayId activation, int64_t size, bool fused);
  ArrayId AsActivation(ArrayId attended, int64_t size, bool fused);
  size_t PlanKind(const model::Add& add, size_t i, ValueId in);

  // --- The end.
  void PlanLoss(ValueId value);
  void Finish();
  void AddScratch();

  // Checks that every gradient is completed once, in the order of the layout.
  void CheckOrder() const;

  const absl::Span<const model::CheckedLayer> layers_;
  const LayerProgramOptions& options_;
  absl::flat_hash_map<std::string, size_t> places_;   // of layers, by name
  absl::flat_hash_map<std::string, int> parameters_;  // by name
  std::vector<Value> values_;
  std::vector<ValueId> given_;                   // by layer; -1 where a fusion hides it
  std::vector<std::function<void()>> backward_;  // run from the last to the first
  std::vector<op::PassStatistics> statistics_;   // from the last layer to the first
  absl::flat_hash_map<ArrayId, int> holders_;    // how many values hold each gradient
  ValueId final_ = -1;
  bool logits_in_place_ = false;
  LayerProgram program_;
};

}  // namespace dp::engine::cuda
