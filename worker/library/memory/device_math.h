#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/library/gpu/gpu_memory.h"
#include "worker/library/memory/array_math.h"

namespace dp::library {

// Arithmetic on a GPU's memory, in the order of the stream. A program links
// one definition. Errors: Unimplemented this build has none.
absl::StatusOr<std::unique_ptr<ArrayMath>> MakeDeviceMath(const GpuUse& use);

}  // namespace dp::library
