#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "worker/engine/device/cuda/cuda_layers.h"

namespace dp::engine::cuda {

// Makes one LayerProgram: emits forward operations layer by layer, each of which leaves behind what
// emits its backward ones. Its methods stand in cuda_layers_planner.cc, and by kind of layer in
// cuda_layers_dense.cc, cuda_layers_image.cc and cuda_layers_text.cc. Used once.
class LayerPlanner {
 public:
  LayerPlanner(absl::Span<const model::CheckedLayer> layers, const LayerProgramOptions& options);

  LayerProgram Plan();

 private:
  // What a layer gives, on its way through the plan.
  struct Value {
    ArrayId array = kNone;
    model::Shape shape;
    bool needs_gradient = false;  // a layer before has parameters
    int readers = 0;
    // The input of the GELU that gave it, where the gradient may go through that with a product.
    ArrayId gelu = kNone;
    bool through_gelu = false;  // `gradients` are of `gelu`
    bool bias_summed = false;   // the gradient of the bias that gave it is complete
    bool plain = false;         // in PyTorch's order, whatever the shape
    // Sums to the gradient of the value when all its readers have been passed.
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

  // `arrays`: all that the operation reads or writes; kNone among them counts for nothing.
  void Emit(OperationKind kind, std::initializer_list<ArrayId> arrays,
            std::initializer_list<int> completes = {});

  int ParameterOf(const std::string& name) const;

  template <typename Kind>
  bool IsKind(size_t i) const {
    return i < layers_.size() && std::holds_alternative<Kind>(layers_[i].kind);
  }
  // What layer `i` gives, as `value`.
  void Give(size_t i, ValueId value);
  int ReadersOf(size_t i) const;
  // Whether the next layer alone reads what layer `i` gives.
  bool Chained(size_t i) const { return ReadersOf(i) == 1; }

  // --- Gradients.
  void AddGradient(ValueId value, ArrayId gradient);
  ArrayId PopGradient(ValueId value);
  // Nobody else waits for it, so it may be overwritten.
  bool Free(ArrayId gradient) const;
  // All readers of `value` have been passed.
  ArrayId TakeGradient(ValueId value);

  // --- The beginning.
  ValueId TakeInput();

  // --- Layers. Each gives how many layers it has planned, from `i` on.
  size_t PlanLayer(size_t i, ValueId in);
  size_t PlanKind(const model::Linear& linear, size_t i, ValueId in);
  size_t PlanKind(const model::TiedLinear& tied, size_t i, ValueId in);
  int64_t Rows(ValueId value) const { return SizeOf(value) / values_[value].shape.back(); }
  void PlanLinear(const LinearSize& size, int weight, int bias, Function function, size_t last,
                  ValueId in, bool complete_weight);

  // The gradient of what goes into a linear layer's function; of a ReLU with the bias's.
  ArrayId FunctionGradient(ValueId given, Function function, ArrayId out, ArrayId aux,
                           const LinearSize& size, int bias);
  ArrayId ReluBiasGradient(ArrayId out, ArrayId gradient, int64_t rows, int64_t columns, int bias);
  ArrayId ApplyGradient(Function function, ArrayId saved, ArrayId gradient, int64_t size);
  void InputGradient(const LinearSize& size, ArrayId gradient, int weight, ValueId in);
  size_t PlanKind(const model::Conv2d& conv, size_t i, ValueId in);
  void PlanConvolution(const Window& window, size_t i, ValueId in, size_t last, bool relu,
                       bool relu_gradient);
  size_t PlanKind(const model::Relu&, size_t i, ValueId in);
  size_t PlanKind(const model::Gelu&, size_t i, ValueId in);
  size_t PlanFunction(Function function, size_t i, ValueId in);
  size_t PlanKind(const model::MaxPool2d& pool, size_t i, ValueId in);
  // Whether pooling layer `i` is the only reader of a ReLU, which is that of a convolution.
  bool FollowsConvolutionAndRelu(size_t i) const;
  // Takes the gradient of such a pooling's output through the ReLU, and sums the convolution's bias
  // there, where elements are fewest: each goes to one place before the pooling. Says whether.
  bool PassReluOfPooled(size_t i, ValueId given, ArrayId gradient);
  size_t PlanKind(const model::Flatten&, size_t i, ValueId in);

  // Of one order already, it is the same array under another shape.
  ValueId InPlainOrder(ValueId in, const model::Shape& shape);
  size_t PlanKind(const model::Dropout& dropout, size_t i, ValueId in);
  size_t PlanKind(const model::Embedding&, size_t i, ValueId);
  bool Tied(const std::string& embedding) const;
  void PositionsGradient(ArrayId gradient, int64_t size, int weight);
  size_t PlanKind(const model::Positions&, size_t i, ValueId in);
  size_t PlanKind(const model::LayerNorm&, size_t i, ValueId in);

  // Of `sum`, which is `in`'s array where nothing is added.
  void PlanNorm(size_t i, ValueId in, ArrayId added, ArrayId from);
  size_t PlanKind(const model::CausalAttention& attention, size_t i, ValueId in);

  // Attention that is not the library's computes on floats.
  ArrayId AsAttended(ArrayId activation, int64_t size, bool fused);
  ArrayId AsActivation(ArrayId attended, int64_t size, bool fused);
  size_t PlanKind(const model::Add& add, size_t i, ValueId in);

  // --- The end.
  void PlanLoss(ValueId value);
  void Finish();
  void AddScratch();

  // Every gradient is completed once, in the order of the layout.
  void CheckOrder() const;

  const absl::Span<const model::CheckedLayer> layers_;
  const LayerProgramOptions& options_;
  absl::flat_hash_map<std::string, size_t> places_;   // of layers, by name
  absl::flat_hash_map<std::string, int> parameters_;  // by name
  std::vector<Value> values_;
  std::vector<ValueId> given_;                   // by layer; -1 where a fusion hides it
  std::vector<std::function<void()>> backward_;  // the last one first
  absl::flat_hash_map<ArrayId, int> holders_;    // values that wait with this gradient
  ValueId final_ = -1;
  bool logits_in_place_ = false;
  LayerProgram program_;
};

}  // namespace dp::engine::cuda
