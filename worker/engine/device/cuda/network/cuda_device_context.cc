#include "worker/engine/device/cuda/network/cuda_device_context.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/program/log.h"
#include "base/status.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"

namespace dp::engine::cuda {
namespace {

std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// The runtime is part of the program. The driver is the host's, and may be absent or too old.
absl::Status CheckDriver() {
  int driver = 0;
  DP_CUDA_RETURN_IF_ERROR(cudaDriverGetVersion(&driver));
  if (driver == 0) {
    return absl::UnavailableError(
        "this host has no NVIDIA driver (libcuda.so.1): install one, or compute on the CPU");
  }
  if (driver / 1000 >= CUDART_VERSION / 1000) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("this host's NVIDIA driver is made for CUDA ", VersionText(driver),
                   ", this program needs one for CUDA ", CUDART_VERSION / 1000,
                   " or newer: install one, or NVIDIA's package cuda-compat"));
}

absl::Status CheckGpu(int index) {
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted != cudaSuccess && counted != cudaErrorNoDevice) {
    return RefusedStatus(counted, {__FILE__, __LINE__, "cudaGetDeviceCount()"});
  }
  (void)cudaGetLastError();  // for its effect; a missing GPU is reported below
  if (index >= 0 && index < count) return absl::OkStatus();
  return absl::UnavailableError(
      count == 0
          ? std::string("the NVIDIA driver shows this process no GPU; is "
                        "CUDA_VISIBLE_DEVICES set to one that is not there?")
          : absl::StrCat("there is no GPU ", index, "; this process sees GPUs 0 to ", count - 1));
}

}  // namespace

DeviceContext::DeviceContext(int index, Libraries libraries)
    : index_(index),
      libraries_(std::move(libraries)),
      cache_(DefaultPlanCacheFile(), libraries_.environment()) {}

absl::StatusOr<DeviceContext> DeviceContext::Open(int index) {
  DP_RETURN_IF_ERROR(CheckDriver());
  DP_RETURN_IF_ERROR(CheckGpu(index));
  DP_CUDA_RETURN_IF_ERROR(cudaSetDevice(index));
  DP_ASSIGN_OR_RETURN(Libraries libraries, Libraries::Open());
  DeviceContext context(index, std::move(libraries));
  DP_ASSIGN_OR_RETURN(context.stream_, Stream::Make());
  DP_ASSIGN_OR_RETURN(context.workspace_, DeviceBuffer::Allocate(kPlanWorkspaceBytes));
  return context;
}

void DeviceContext::Use() {
  Do([this]() -> absl::Status {
    DP_CUDA_RETURN_IF_ERROR(cudaSetDevice(index_));
    return absl::OkStatus();
  });
}

Planning DeviceContext::planning() {
  return {.libraries = libraries_,
          .cache = cache_,
          .stream = stream_.get(),
          .workspace = workspace_.data(),
          .workspace_bytes = workspace_.bytes(),
          .busy_ms = busy_ms_};
}

void DeviceContext::SavePlans() {
  const absl::Status saved = cache_.Save();
  if (!saved.ok()) {
    Log(Severity::kWarning, "gpu_plans_not_kept", {{"error", std::string(saved.message())}});
  }
}

void DeviceContext::Do(const std::function<absl::Status()>& work) {
  if (status_.ok()) Note(work());
}

}  // namespace dp::engine::cuda
