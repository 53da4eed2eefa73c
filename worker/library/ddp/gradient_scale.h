#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "dp/elements.h"

namespace dp::library {

// Over elements of floats, in the order in which they lie.
double SumOfSquares(const distributed::Elements& elements);
// The factor by which gradients of that norm are scaled; 1 and more: not at all.
// Errors: kInvalidArgument max_norm is not above 0.
double ClippingFactor(double norm, double max_norm);
// Multiplies each by the factor. 16-bit floats are multiplied as float, and rounded.
void Scale(const distributed::MutableElements& elements, double factor);

// A number that differs where two ranks' bytes differ, but for one case in 2^64: FNV-1a, of 64
// bits, over words of 8 bytes. The bytes are a multiple of 8.
uint64_t ChecksumOf(absl::Span<const uint8_t> bytes);

}  // namespace dp::library
