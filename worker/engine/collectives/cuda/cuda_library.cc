#include "worker/engine/collectives/cuda/cuda_library.h"

namespace dp::engine {

absl::StatusOr<void*> OpenLibrary(const std::string& file) {
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return absl::UnavailableError(
        absl::StrCat("cannot load ", file, ": ", dlerror(), "; install it or set LD_LIBRARY_PATH"));
  return handle;
}

absl::StatusOr<void*> OpenCudaLibrary() {
  return OpenLibrary(absl::StrCat("libcudart.so.", CUDART_VERSION / 1000));
}

absl::StatusOr<CudaEntries> FindCudaEntries(void* library) {
  CudaEntries entries;
  absl::Status status;
#define DP_CUDA_FIND(name) status.Update(FindEntry(library, #name, &entries.name))
  DP_CUDA_FIND(cudaGetDeviceCount);
  DP_CUDA_FIND(cudaSetDevice);
  DP_CUDA_FIND(cudaGetDevice);
  DP_CUDA_FIND(cudaDeviceSynchronize);
  DP_CUDA_FIND(cudaPointerGetAttributes);
  DP_CUDA_FIND(cudaStreamSynchronize);
  DP_CUDA_FIND(cudaMemcpyAsync);
  DP_CUDA_FIND(cudaMemsetAsync);
  DP_CUDA_FIND(cudaGetErrorString);
  DP_CUDA_FIND(cudaGetLastError);
  DP_CUDA_FIND(cudaMalloc);
  DP_CUDA_FIND(cudaFree);
#undef DP_CUDA_FIND
  if (!status.ok()) return status;
  return entries;
}

absl::StatusOr<std::unique_ptr<CudaApi>> LoadCuda() {
  DP_ASSIGN_OR_RETURN(void* const library, OpenCudaLibrary());
  DP_ASSIGN_OR_RETURN(const CudaEntries entries, FindCudaEntries(library));
  return std::make_unique<CudaCalls<CudaApi>>(entries);
}

}  // namespace dp::engine
