#pragma once

#include <cudnn.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/device/cuda/cuda_cudnn_graph.h"

namespace dp::engine::cuda {

// One way in which cuDNN can compute a graph: an engine and the settings of its knobs.
struct CudnnEngine {
  CudnnDescriptor config;
  std::string name;  // "eng6 k24=26": its number, and each knob with its value
  std::vector<cudnnBackendNumericalNote_t> notes;
};

// The engines that cuDNN's heuristics name for a graph that is finished, the one it believes
// fastest first, then those it falls back to.
absl::StatusOr<std::vector<CudnnEngine>> FindCudnnEngines(const CudnnGraph& graph,
                                                          const CudnnTarget& target);

// Whether the engine gives the same bits in every run and, if `full_float32`, multiplies float32
// values as they are: not in TF32 or bfloat16 on tensor cores, and not in Winograd's form, which
// loses a digit or two.
bool IsExact(absl::Span<const cudnnBackendNumericalNote_t> notes, bool full_float32);

}  // namespace dp::engine::cuda
