#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "dp/elements.h"
#include "worker/library/memory/group_memory.h"

namespace dp::library {

// Scales gradients, which lie in `memory`, as dp::clip_grad_norm says; returns their norm before.
double ClipByNorm(GroupMemory& memory, absl::Span<const distributed::MutableElements> gradients,
                  double max_norm);
// The factor by which gradients of that norm are scaled, if IsScaling says so. NaN if the norm is.
// Errors: kInvalidArgument max_norm is not above 0.
double ClippingFactor(double norm, double max_norm);
// Gradients within the bound stay as they are. NaN spreads to all of them, as in PyTorch.
inline bool IsScaling(double factor) { return !(factor >= 1); }

// A number that differs where two ranks' bytes differ, but for one case in 2^64: FNV-1a, of 64
// bits, over words of 8 bytes. The bytes are a multiple of 8.
uint64_t ChecksumOf(absl::Span<const uint8_t> bytes);

}  // namespace dp::library
