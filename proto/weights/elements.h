#pragma once

#include <cstdint>

#include "proto/weights/safetensors.h"

// The numbers of a tensor in a file. Pure.

namespace dp {

// Whether the elements are F64, F32, F16 or BF16.
bool HasFloats(const EncodedTensor& tensor);
// Whether NumberAt reads the elements: these, and whole numbers with a sign, bytes and BOOL.
bool HasNumbers(const EncodedTensor& tensor);

// The element at `index`, counted row by row. Precondition: HasNumbers. Exact, but for whole
// numbers beyond 2^53.
double NumberAt(const EncodedTensor& tensor, int64_t index);

int64_t ElementCountOf(const EncodedTensor& tensor);

}  // namespace dp
