#pragma once

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "worker/engine/collectives/cuda/cuda_api.h"

// The real CUDA runtime. Compiling needs its headers; only loading needs the library.

namespace dp::engine {

// A library, which stays loaded until the process ends. Errors: Unavailable, with the remedy.
absl::StatusOr<void*> OpenLibrary(const std::string& file);
absl::StatusOr<void*> OpenCudaLibrary();

// The entry point `name` of a library. Errors: Unavailable the library has none.
template <typename Function>
absl::Status FindEntry(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr)
    return absl::UnavailableError(absl::StrCat("no ", name, " in the library: too old"));
  return absl::OkStatus();
}

// The entry points, with their types from the headers and their addresses from the library.
struct CudaEntries {
  decltype(&::cudaGetDeviceCount) cudaGetDeviceCount = nullptr;
  decltype(&::cudaSetDevice) cudaSetDevice = nullptr;
  decltype(&::cudaGetDevice) cudaGetDevice = nullptr;
  decltype(&::cudaDeviceSynchronize) cudaDeviceSynchronize = nullptr;
  decltype(&::cudaPointerGetAttributes) cudaPointerGetAttributes = nullptr;
  decltype(&::cudaStreamSynchronize) cudaStreamSynchronize = nullptr;
  decltype(&::cudaMemcpyAsync) cudaMemcpyAsync = nullptr;
  decltype(&::cudaMemsetAsync) cudaMemsetAsync = nullptr;
  decltype(&::cudaGetErrorString) cudaGetErrorString = nullptr;
  decltype(&::cudaGetLastError) cudaGetLastError = nullptr;
  // The header overloads these, so their types are written out.
  cudaError_t (*cudaMalloc)(void**, size_t) = nullptr;
  cudaError_t (*cudaFree)(void*) = nullptr;
};
absl::StatusOr<CudaEntries> FindCudaEntries(void* library);

// The device as the runtime keeps it: per thread, and 0 until one is chosen.
inline thread_local int chosen_device = 0;

// The runtime behind CudaApi, or behind an interface that extends it.
template <typename Api>
class CudaCalls : public Api {
 public:
  explicit CudaCalls(const CudaEntries& entries) : cuda_(entries) {}

  absl::StatusOr<int> DeviceCount() override {
    int count = 0;
    DP_RETURN_IF_ERROR(FromCuda("cudaGetDeviceCount", cuda_.cudaGetDeviceCount(&count)));
    return count;
  }
  absl::Status UseDevice(int device) override {
    chosen_device = device;
    return FromCuda("cudaSetDevice", cuda_.cudaSetDevice(device));
  }
  absl::StatusOr<int> ChosenDevice() override {
    DP_RETURN_IF_ERROR(FromCuda("cudaGetDevice", cuda_.cudaGetDevice(&chosen_device)));
    return chosen_device;
  }
  absl::Status AwaitDevice() override {
    return FromCuda("cudaDeviceSynchronize", cuda_.cudaDeviceSynchronize());
  }

  absl::StatusOr<uint8_t*> Allocate(size_t bytes) override {
    void* memory = nullptr;
    const cudaError_t allocated = cuda_.cudaMalloc(&memory, bytes);
    const absl::Status status = FromCuda("cudaMalloc", allocated);
    if (allocated == cudaErrorMemoryAllocation)
      return absl::ResourceExhaustedError(
          absl::StrCat("GPU ", chosen_device, " has no room for ", bytes, " more bytes"));
    if (!status.ok()) return status;
    return static_cast<uint8_t*>(memory);
  }
  // Freeing reports only errors of earlier calls, which those calls have reported.
  void Free(uint8_t* memory) override { (void)cuda_.cudaFree(memory); }
  absl::StatusOr<std::optional<int>> DeviceOf(const void* memory) override {
    cudaPointerAttributes attributes{};
    DP_RETURN_IF_ERROR(
        FromCuda("cudaPointerGetAttributes", cuda_.cudaPointerGetAttributes(&attributes, memory)));
    if (attributes.type == cudaMemoryTypeDevice) return attributes.device;
    if (attributes.type != cudaMemoryTypeManaged) return std::nullopt;
    return ChosenDevice();  // the program may have chosen another since
  }

  absl::Status Copy(const uint8_t* from, size_t bytes, uint8_t* to, void* stream) override {
    DP_RETURN_IF_ERROR(CopyOnStream(from, bytes, to, stream));
    return FromCuda("cudaStreamSynchronize",
                    cuda_.cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
  }
  absl::Status CopyOnStream(const uint8_t* from, size_t bytes, uint8_t* to, void* stream) override {
    return FromCuda("cudaMemcpyAsync", cuda_.cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault,
                                                             static_cast<cudaStream_t>(stream)));
  }
  absl::Status ZeroOnStream(uint8_t* memory, size_t bytes, void* stream) override {
    return FromCuda("cudaMemsetAsync",
                    cuda_.cudaMemsetAsync(memory, 0, bytes, static_cast<cudaStream_t>(stream)));
  }

 protected:
  absl::Status FromCuda(absl::string_view call, cudaError_t result) const {
    if (result == cudaSuccess) return absl::OkStatus();
    (void)cuda_.cudaGetLastError();  // for its effect: the program does not find this error again
    return absl::InternalError(absl::StrCat("CUDA: ", call, " on device ", chosen_device, ": ",
                                            cuda_.cudaGetErrorString(result)));
  }

 private:
  const CudaEntries cuda_;
};

}  // namespace dp::engine
