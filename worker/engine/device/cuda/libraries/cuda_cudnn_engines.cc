#include "worker/engine/device/cuda/libraries/cuda_cudnn_engines.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"

namespace dp::engine::cuda {
namespace {

// Up to `max` values of an attribute.
template <typename Value>
std::vector<Value> GetAll(const CudnnDescriptor& from, cudnnBackendAttributeName_t name,
                          cudnnBackendAttributeType_t type, int64_t max) {
  std::vector<Value> values(max);
  int64_t count = 0;
  const cudnnStatus_t result =
      cudnnBackendGetAttribute(from.get(), name, type, max, &count, values.data());
  if (result != CUDNN_STATUS_SUCCESS) count = 0;
  values.resize(std::clamp<int64_t>(count, 0, max));
  return values;
}

// The same for descriptors. cuDNN writes into descriptors that the caller has made.
std::vector<CudnnDescriptor> GetDescriptors(const CudnnDescriptor& from,
                                            cudnnBackendAttributeName_t name,
                                            cudnnBackendDescriptorType_t type, int64_t max) {
  std::vector<CudnnDescriptor> made;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < max; ++i) {
    made.emplace_back(type);
    raw.push_back(made.back().get());
  }
  int64_t count = 0;
  const cudnnStatus_t result = cudnnBackendGetAttribute(
      from.get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, max, &count, raw.data());
  if (result != CUDNN_STATUS_SUCCESS) count = 0;
  made.resize(std::clamp<int64_t>(count, 0, max));
  return made;
}

std::string KnobText(const CudnnDescriptor& choice) {
  cudnnBackendKnobType_t type = {};
  int64_t value = 0;
  choice.Get(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, &type);
  choice.Get(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, &value);
  return absl::StrCat(" k", static_cast<int>(type), "=", value);
}

CudnnEngine DescribeEngine(CudnnDescriptor config) {
  CudnnEngine engine;
  auto engines =
      GetDescriptors(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  int64_t index = -1;
  if (!engines.empty()) {
    engines[0].Get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, &index);
    engine.notes = GetAll<cudnnBackendNumericalNote_t>(engines[0], CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                       CUDNN_TYPE_NUMERICAL_NOTE,
                                                       CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  }
  engine.name = absl::StrCat("eng", index);
  for (const CudnnDescriptor& choice :
       GetDescriptors(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                      CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS)) {
    absl::StrAppend(&engine.name, KnobText(choice));
  }
  engine.config = std::move(config);
  return engine;
}

absl::StatusOr<std::vector<CudnnDescriptor>> AskHeuristics(const CudnnGraph& graph,
                                                           const CudnnTarget& target,
                                                           cudnnBackendHeurMode_t mode) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.operations());
  heuristics.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (target.card != nullptr) {
    heuristics.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, target.card);
  }
  DP_RETURN_IF_ERROR(heuristics.Finalize());
  int64_t count = 0;
  DP_CUDA_RETURN_IF_ERROR(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
                                                   nullptr));
  return GetDescriptors(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                        CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, count);
}

bool Holds(const std::vector<CudnnEngine>& engines, const std::string& name) {
  return std::any_of(engines.begin(), engines.end(),
                     [&](const CudnnEngine& each) { return each.name == name; });
}

}  // namespace

absl::StatusOr<std::vector<CudnnEngine>> FindCudnnEngines(const CudnnGraph& graph,
                                                          const CudnnTarget& target) {
  std::vector<CudnnEngine> engines;
  absl::Status refused;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    auto configs = AskHeuristics(graph, target, mode);
    if (!configs.ok()) {
      refused.Update(configs.status());
      continue;
    }
    for (CudnnDescriptor& config : *configs) {
      CudnnEngine engine = DescribeEngine(std::move(config));
      if (graph.adds_atomically()) engine.notes.push_back(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
      if (!Holds(engines, engine.name)) engines.push_back(std::move(engine));
    }
  }
  if (engines.empty() && !refused.ok()) return refused;
  return engines;
}

bool IsExact(absl::Span<const cudnnBackendNumericalNote_t> notes, const Exactness& asked) {
  return std::none_of(notes.begin(), notes.end(), [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        return asked.same_bits;
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
        return true;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD:
      case CUDNN_NUMERICAL_NOTE_FFT:
        return asked.full_float32;
      default:
        return false;
    }
  });
}

}  // namespace dp::engine::cuda
