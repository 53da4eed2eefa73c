// A library in the place of the driver's (libcuda.so.1). It accepts any machine code and runs none.
// cuDNN needs this much of a driver to build a plan for a card that is described in words. Tests
// load this library first; cuDNN then finds it under the driver's name. It keeps no state.

namespace {

// As cuda.h numbers them.
constexpr int kSuccess = 0;
constexpr int kNoDevice = 100;
constexpr int kNotSupported = 801;

// The target of all handles; nobody reads it.
int loaded = 0;

}  // namespace

extern "C" {

int cuInit(unsigned) { return kNoDevice; }

int cuLibraryLoadData(void** library, const void*, void*, void*, unsigned, void*, void*, unsigned) {
  *library = &loaded;
  return kSuccess;
}
int cuLibraryGetKernel(void** kernel, void*, const char*) {
  *kernel = &loaded;
  return kSuccess;
}
int cuLibraryUnload(void*) { return kSuccess; }
int cuKernelGetFunction(void** function, void*) {
  *function = &loaded;
  return kSuccess;
}
int cuKernelSetAttribute(int, int, void*, int) { return kSuccess; }
int cuKernelGetAttribute(int* value, int, void*, int) {
  *value = 0;
  return kSuccess;
}
int cuDeviceGetCount(int* count) {
  *count = 0;
  return kSuccess;
}
int cuGetErrorString(int, const char** text) {
  *text = "this driver runs nothing";
  return kSuccess;
}
int cuGetErrorName(int, const char** name) {
  *name = "CUDA_ERROR";
  return kSuccess;
}

// cuDNN does not call these to build a plan. But if one is missing, cuDNN reports that on standard
// error and has no engines that are compiled at run time.
#define DP_DRIVER_REFUSES(name) \
  int name() { return kNotSupported; }
DP_DRIVER_REFUSES(cuCtxGetCurrent)
DP_DRIVER_REFUSES(cuCtxGetLimit)
DP_DRIVER_REFUSES(cuCtxPopCurrent)
DP_DRIVER_REFUSES(cuCtxPushCurrent)
DP_DRIVER_REFUSES(cuDeviceGet)
DP_DRIVER_REFUSES(cuDriverGetVersion)
DP_DRIVER_REFUSES(cuLaunchCooperativeKernel)
DP_DRIVER_REFUSES(cuLaunchKernel)
DP_DRIVER_REFUSES(cuLaunchKernelEx)
DP_DRIVER_REFUSES(cuLibraryLoadFromFile)
DP_DRIVER_REFUSES(cuLinkAddData)
DP_DRIVER_REFUSES(cuLinkComplete)
DP_DRIVER_REFUSES(cuLinkCreate)
DP_DRIVER_REFUSES(cuLinkDestroy)
DP_DRIVER_REFUSES(cuOccupancyMaxPotentialClusterSize)
DP_DRIVER_REFUSES(cuStreamGetCtx)
#undef DP_DRIVER_REFUSES

}  // extern "C"
