#include "worker/library/cuda_module.h"

#include "worker/library/memory/cuda_math.h"

namespace dp::library {

extern "C" MakeMathInModule dp_make_cuda_math;

void dp_make_cuda_math(int device, void* stream, std::unique_ptr<ArrayMath>& math) {
  math = MakeCudaMath(device, stream);
}

}  // namespace dp::library
