#pragma once

// Marks a function that kernels and the host both call; nothing where no kernel is compiled, so
// that its tests need no toolkit.
#ifdef __CUDACC__
#define DP_HOST_DEVICE __host__ __device__
#else
#define DP_HOST_DEVICE
#endif
