#pragma once

#include <cudnn.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/device/cuda/libraries/cuda_cudnn_graph.h"

namespace dp::engine::cuda {

// One way in which cuDNN can compute a graph: an engine and the settings of its knobs.
struct CudnnEngine {
  CudnnDescriptor config;
  std::string name;  // "eng6 k24=26": its number, and each knob with its value
  std::vector<cudnnBackendNumericalNote_t> notes;
};

// The engines that cuDNN's heuristics name for a finished graph. The engine that cuDNN expects to
// be fastest comes first; its fallbacks come last.
absl::StatusOr<std::vector<CudnnEngine>> FindCudnnEngines(const CudnnGraph& graph,
                                                          const CudnnTarget& target);

// Whether the engine gives the same bits in every run and sums in full precision. With
// `full_float32` the engine must also multiply float32 values as they are. This excludes TF32 and
// bfloat16 on tensor cores, and Winograd's form and FFTs, which lose digits.
bool IsExact(absl::Span<const cudnnBackendNumericalNote_t> notes, bool full_float32);

}  // namespace dp::engine::cuda
