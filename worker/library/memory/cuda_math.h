#pragma once

#include <memory>

#include "worker/library/memory/array_math.h"

namespace dp::library {

// Arithmetic by CUDA's kernels on the memory of `device`, in the order of `stream`.
std::unique_ptr<ArrayMath> MakeCudaMath(int device, void* stream);

}  // namespace dp::library
