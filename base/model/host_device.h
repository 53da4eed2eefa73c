#pragma once

// Marks a function that kernels and the host both call. Empty where no kernel is compiled, so that
// the function's tests need no toolkit.
#ifdef __CUDACC__
#define DP_HOST_DEVICE __host__ __device__
#else
#define DP_HOST_DEVICE
#endif
