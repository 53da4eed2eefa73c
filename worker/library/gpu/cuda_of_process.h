#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "worker/engine/collectives/cuda/cuda_api.h"

namespace dp::library {

// CUDA's runtime, which the process loads at the first use and then keeps. Thread-safe. Errors:
// Unimplemented a library is missing.
absl::StatusOr<engine::CudaApi*> TheCuda();

// From now on the process uses this runtime; null: its own again. For tests.
void ReplaceCuda(engine::CudaApi* cuda);

// The GPU in whose memory this lies; nothing for the host's memory. Loads no library in a process
// that cannot have such memory. Errors: CUDA's, for example of an earlier kernel.
absl::StatusOr<std::optional<int>> GpuOfMemory(const void* memory);

}  // namespace dp::library
