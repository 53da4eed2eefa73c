#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "dp/tensor.h"

// How a batch is cut into parts for devices, and put together again. Pure. Errors are DistErrors of
// kInvalidArgument, or of kLimit where sizes or memory run out.

namespace dp::library {

// The sizes of the parts of `samples` samples: ceil(samples / devices) each, the last may be
// shorter. At most one part for each device, and at least one.
std::vector<int64_t> PartSizes(int64_t samples, size_t devices);

// "[2, 3]".
std::string ShapeText(const std::vector<int64_t>& shape);

// The tensor in parts along `dim`, whose sizes add up to its own there. `dim` exists.
std::vector<distributed::Tensor> SplitTensor(const distributed::Tensor& whole, size_t dim,
                                             absl::Span<const int64_t> sizes);

// The inverse. Errors: no tensor, or one that differs from the first in type, or in its shape
// elsewhere than in `dim`. Scalars are parts of one sample.
distributed::Tensor JoinTensors(absl::Span<const distributed::Tensor> parts, size_t dim);

}  // namespace dp::library
