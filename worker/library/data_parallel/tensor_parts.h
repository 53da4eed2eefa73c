#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "dp/tensor.h"
#include "worker/library/gpu/device.h"
#include "worker/library/gpu/gpu_memory.h"

// How a batch is cut into parts for devices, and put together again. Errors are DistErrors of
// kInvalidArgument, of kLimit where sizes or memory run out, or those of a GPU.

namespace dp::library {

// The sizes of the parts of `samples` samples: ceil(samples / devices) each, the last may be
// shorter. At most one part for each device, and at least one.
std::vector<int64_t> PartSizes(int64_t samples, size_t devices);

// "[2, 3]".
std::string ShapeText(const std::vector<int64_t>& shape);

// The product. The greatest number stands for all that are greater.
int64_t ElementsIn(absl::Span<const int64_t> shape);

// Where the elements begin, which are only read through a const tensor.
MemoryPlace PlaceOfTensor(const distributed::Tensor& tensor);

// The tensor in parts along `dim`, whose sizes add up to its own there. `dim` exists. Part i is
// made on device i.
std::vector<distributed::Tensor> SplitTensor(const distributed::Tensor& whole, size_t dim,
                                             absl::Span<const int64_t> sizes,
                                             absl::Span<const Device> devices);

// The inverse, on `device`. Errors: no tensor, or one that differs from the first in type, or in
// its shape elsewhere than in `dim`. Scalars are parts of one sample.
distributed::Tensor JoinTensors(absl::Span<const distributed::Tensor> parts, size_t dim,
                                const Device& device);

}  // namespace dp::library
