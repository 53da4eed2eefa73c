#pragma once

#include <vector>

#include "absl/types/span.h"
#include "dp/data_parallel.h"
#include "worker/library/gpu/device.h"

namespace dp::library {

// The arguments of each device that gets a part, on that device. Throws kInvalidArgument where the
// tensors cannot be split, and as SplitTensor.
std::vector<distributed::Arguments> ScatterArguments(const distributed::Arguments& inputs,
                                                     absl::Span<const Device> devices, int dim);

}  // namespace dp::library
