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
// be fastest comes first; its fallbacks come last. cuDNN 9.19 and 9.25 do not note that atomic sums
// differ from run to run. The notes of engines for such a graph have
// CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC in any case.
absl::StatusOr<std::vector<CudnnEngine>> FindCudnnEngines(const CudnnGraph& graph,
                                                          const CudnnTarget& target);

// The promises that a caller asks of an engine.
struct Exactness {
  bool same_bits = true;  // in every run
  // Multiplies float32 values as they are. This excludes TF32 and bfloat16 on tensor cores, and
  // Winograd's form and FFTs, which lose digits.
  bool full_float32 = false;
};

// Whether the engine keeps the promises, and sums in full precision.
bool IsExact(absl::Span<const cudnnBackendNumericalNote_t> notes, const Exactness& asked);

}  // namespace dp::engine::cuda
