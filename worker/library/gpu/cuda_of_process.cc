#include "worker/library/gpu/cuda_of_process.h"

#include <dlfcn.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"

namespace dp::library {
namespace {

struct CudaOfProcess {
  Mutex mu;
  std::unique_ptr<engine::CudaApi> loaded DP_GUARDED_BY(mu);
  engine::CudaApi* replaced DP_GUARDED_BY(mu) = nullptr;
};

CudaOfProcess& CudaHere() {
  static auto* const cuda = new CudaOfProcess;  // tensors may end during exit
  return *cuda;
}

// Null unless a runtime is in use.
engine::CudaApi* CudaInUse() {
  CudaOfProcess& cuda = CudaHere();
  MutexLock lock(cuda.mu);
  return cuda.replaced != nullptr ? cuda.replaced : cuda.loaded.get();
}

// Every runtime loads the driver, also one that is part of the program.
bool HasDriver() { return dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY) != nullptr; }

}  // namespace

absl::StatusOr<engine::CudaApi*> TheCuda() {
  CudaOfProcess& cuda = CudaHere();
  MutexLock lock(cuda.mu);
  if (cuda.replaced != nullptr) return cuda.replaced;
  if (cuda.loaded == nullptr) {
    absl::StatusOr<std::unique_ptr<engine::CudaApi>> loaded = engine::LoadCuda();
    if (!loaded.ok())
      return absl::UnimplementedError(
          absl::StrCat("GPUs cannot be used: ", std::string(loaded.status().message()),
                       "; CPU devices need no library"));
    cuda.loaded = *std::move(loaded);
  }
  return cuda.loaded.get();
}

void ReplaceCuda(engine::CudaApi* cuda) {
  CudaOfProcess& process = CudaHere();
  MutexLock lock(process.mu);
  process.replaced = cuda;
}

absl::StatusOr<std::optional<int>> GpuOfMemory(const void* memory) {
  engine::CudaApi* cuda = CudaInUse();
  if (cuda == nullptr && HasDriver()) cuda = TheCuda().value_or(nullptr);
  if (cuda == nullptr || memory == nullptr) return std::nullopt;
  return cuda->DeviceOf(memory);
}

}  // namespace dp::library
