#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/library/memory/array_math.h"
#include "worker/library/nccl/nccl_use.h"

namespace dp::library {

// Arithmetic on the memory of a group's GPU, in the order of the program's stream. A program links
// one definition. Errors: Unimplemented this build has none.
absl::StatusOr<std::unique_ptr<ArrayMath>> MakeDeviceMath(const NcclUse& use);

}  // namespace dp::library
