#include "worker/engine/device/cuda/layers/cuda_layers_planner.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/overloaded.h"

namespace dp::engine::cuda {
LayerPlanner::LayerPlanner(absl::Span<const model::CheckedLayer> layers,
                           const LayerProgramOptions& options)
    : layers_(layers), options_(options) {
  program_.precision = options.network.precision;
  program_.deterministic = options.network.deterministic;
  program_.collective_blocks = options.network.collective_blocks;
  program_.batch_size = options.network.batch_size;
  program_.layout = LayOut(layers);
  for (size_t i = 0; i < layers.size(); ++i) places_[layers[i].name] = i;
  for (size_t i = 0; i < program_.layout.parameters.size(); ++i) {
    parameters_[program_.layout.parameters[i].name] = static_cast<int>(i);
  }
  given_.resize(layers.size(), -1);
}

LayerProgram LayerPlanner::Plan() {
  const ValueId data = TakeInput();
  for (size_t i = 0; i < layers_.size();) {
    const int giver = layers_[i].giver;
    i += PlanLayer(i, giver == model::CheckedLayer::kData ? data : given_[giver]);
  }
  PlanLoss(given_.back());
  while (!backward_.empty()) {
    const std::function<void()> emit = std::move(backward_.back());
    backward_.pop_back();
    if (values_[final_].needs_gradient) emit();
  }
  for (op::PassStatistics& each : statistics_) {
    each.rows_per_sample = program_.take_loss().rows_per_sample;
    Emit(each, {each.mean, each.variance}, {each.running_variance, each.running_mean});
  }
  Finish();
  return std::move(program_);
}

ArrayId LayerPlanner::NewArray(Stored stored, int64_t size) {
  program_.arrays.push_back({stored, size, std::numeric_limits<int>::max(), -1});
  return static_cast<ArrayId>(program_.arrays.size()) - 1;
}

LayerPlanner::ValueId LayerPlanner::NewValue(ArrayId array, const model::Shape& shape,
                                             bool needs_gradient) {
  values_.push_back({.array = array, .shape = shape, .needs_gradient = needs_gradient});
  return static_cast<ValueId>(values_.size()) - 1;
}

int64_t LayerPlanner::SizeOf(ValueId value) const {
  return batch() * model::ElementCount(values_[value].shape);
}

void LayerPlanner::Emit(OperationKind kind, std::initializer_list<ArrayId> arrays,
                        std::initializer_list<int> completes) {
  const int place = static_cast<int>(program_.operations.size());
  for (const ArrayId id : arrays) {
    if (id == kNone) continue;
    ProgramArray& array = program_.arrays[id];
    array.first = std::min(array.first, place);
    array.last = std::max(array.last, place);
  }
  program_.operations.push_back({.kind = std::move(kind)});
  for (const int parameter : completes) {
    if (parameter != kNone) program_.operations.back().completes.push_back(parameter);
  }
}

int LayerPlanner::ParameterOf(const std::string& name) const {
  const auto found = parameters_.find(name);
  return found == parameters_.end() ? kNone : found->second;
}

void LayerPlanner::Give(size_t i, ValueId value) {
  given_[i] = value;
  values_[value].readers = ReadersOf(i);
}

int LayerPlanner::ReadersOf(size_t i) const {
  int readers = 0;
  for (const model::CheckedLayer& layer : layers_) {
    readers += layer.giver == static_cast<int>(i);
    const auto* add = std::get_if<model::Add>(&layer.kind);
    readers += add != nullptr && add->layer == layers_[i].name;
  }
  return readers;
}

void LayerPlanner::AddGradient(ValueId value, ArrayId gradient) {
  if (!values_[value].needs_gradient) return;
  values_[value].gradients.push_back(gradient);
  ++holders_[gradient];
}

ArrayId LayerPlanner::PopGradient(ValueId value) {
  std::vector<ArrayId>& gradients = values_[value].gradients;
  if (gradients.empty()) return kNone;
  const ArrayId last = gradients.back();
  gradients.pop_back();
  --holders_[last];
  return last;
}

bool LayerPlanner::Free(ArrayId gradient) const {
  const auto found = holders_.find(gradient);
  return found == holders_.end() || found->second == 0;
}

ArrayId LayerPlanner::TakeGradient(ValueId value) {
  ArrayId sum = PopGradient(value);
  DP_CHECK(sum != kNone);
  while (!values_[value].gradients.empty()) {
    const ArrayId other = PopGradient(value);
    const ArrayId out = NewActivation(SizeOf(value));
    Emit(op::Sum{sum, other, SizeOf(value), out}, {sum, other, out});
    sum = out;
  }
  return sum;
}

LayerPlanner::ValueId LayerPlanner::TakeInput() {
  const model::Shape& shape = layers_.front().in;
  program_.samples = NewArray(Stored::kInt64, batch());
  if (IsKind<model::Embedding>(0)) {
    program_.tokens_per_sample = shape[0];
    program_.vocabulary = std::get<model::Embedding>(layers_.front().kind).vocabulary;
    program_.tokens = NewArray(Stored::kInt32, batch() * shape[0]);
    return NewValue(program_.tokens, shape, false);
  }
  program_.images = NewArray(Stored::kFloat, batch() * model::ElementCount(shape));
  const ValueId input = NewValue(program_.images, shape, false);
  Value& value = values_[input];
  if (!bfloat16() && !value.channels_last()) return input;
  value.array = NewActivation(batch() * model::ElementCount(shape));
  const int64_t channels = value.channels();
  Emit(op::TakeImages{{batch(), channels, model::ElementCount(shape) / channels}, value.array},
       {program_.images, value.array});
  return input;
}

size_t LayerPlanner::PlanLayer(size_t i, ValueId in) {
  return std::visit(Overloaded{[&](const auto& kind) { return PlanKind(kind, i, in); },
                               [](const model::Plugin&) -> size_t {
                                 DP_CHECK(false);  // CheckPlannable has refused it
                                 return 1;
                               }},
                    layers_[i].kind);
}

void LayerPlanner::PlanLoss(ValueId value) {
  const model::Shape& shape = layers_.back().out;
  if (values_[value].channels_last()) {
    value = InPlainOrder(value, shape);
    logits_in_place_ = false;
  }
  final_ = value;
  const Loss& loss = options_.network.loss;
  const bool by_rows = std::holds_alternative<CrossEntropyLoss>(loss);
  const int64_t outputs = model::ElementCount(shape);
  const int64_t rows_per_sample = by_rows ? outputs / shape.back() : 1;
  const ArrayId logits = values_[value].array;
  const int64_t size = program_.arrays[logits].size;
  const int64_t stride = size / (batch() * rows_per_sample);
  const bool of_tokens = program_.tokens != kNone;
  const int64_t labels = of_tokens ? program_.tokens_per_sample : rows_per_sample;
  if (HasTargets(loss)) {
    program_.targets = NewArray(Stored::kFloat, batch() * outputs);
  } else {
    program_.labels = NewArray(Stored::kInt32, batch() * labels);
  }
  ArrayId gradient = kNone;
  if (values_[value].needs_gradient) gradient = logits_in_place_ ? logits : NewActivation(size);
  program_.loss = static_cast<int>(program_.operations.size());
  Emit(op::TakeLoss{batch(), rows_per_sample, outputs / rows_per_sample, stride, logits, gradient,
                    loss},
       {logits, gradient, program_.labels, program_.targets});
  if (gradient != kNone) AddGradient(value, gradient);
}

void LayerPlanner::Finish() {
  const int last = static_cast<int>(program_.operations.size()) - 1;
  for (const ArrayId given :
       {program_.images, program_.tokens, program_.labels, program_.targets, program_.samples}) {
    if (given == kNone) continue;
    program_.arrays[given].first = 0;
    program_.arrays[given].last = last;
  }
  // ReadLogits comes after the last forward operation, so the logits must live until the loss.
  ProgramArray& logits = program_.arrays[program_.take_loss().logits];
  logits.first = std::min(logits.first, program_.loss);
  AddScratch();
  CheckOrder();
}

void LayerPlanner::AddScratch() {
  if (!options_.scratch_bytes) return;
  for (size_t i = 0; i < program_.operations.size(); ++i) {
    Operation& operation = program_.operations[i];
    const int64_t bytes = options_.scratch_bytes(program_, operation.kind);
    if (bytes == 0) continue;
    operation.scratch = NewArray(Stored::kByte, bytes);
    program_.arrays.back().first = program_.arrays.back().last = static_cast<int>(i);
  }
}

void LayerPlanner::CheckOrder() const {
  int next = 0;
  for (const Operation& operation : program_.operations) {
    for (const int parameter : operation.completes) DP_CHECK(parameter == next++);
  }
  DP_CHECK(next == static_cast<int>(program_.layout.parameters.size()));
}

}  // namespace dp::engine::cuda
