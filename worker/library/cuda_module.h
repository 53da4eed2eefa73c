#pragma once

#include <memory>

#include "worker/library/memory/array_math.h"

namespace dp::library {

// MakeCudaMath as the module exports it, with its result written to `math`. Both sides are of one
// build, which the module's name states.
using MakeMathInModule = void(int device, void* stream, std::unique_ptr<ArrayMath>& math);
inline constexpr char kMakeMathInModule[] = "dp_make_cuda_math";

}  // namespace dp::library
