#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/engine/device/cuda/cuda_plan_cache.h"

namespace dp::engine::cuda {

// The handles of cuBLASLt and cuDNN on the current device. Owned by the device, outlives every
// plan. Not thread-safe.
class Libraries {
 public:
  // Errors: Unavailable without a device; Internal, with what a library says.
  static absl::StatusOr<Libraries> Open();

  cublasLtHandle_t blas() const { return blas_.get(); }
  cudnnHandle_t dnn() const { return dnn_.get(); }
  // What the bits and the speed of an algorithm depend on, for PlanCache: "NVIDIA H100 80GB HBM3,
  // 132 SMs, cublasLt 130100, cudnn 91900".
  const std::string& environment() const { return environment_; }

 private:
  struct Destroy {
    void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
    void operator()(cudnnHandle_t handle) const { cudnnDestroy(handle); }
  };
  Libraries() = default;

  std::unique_ptr<cublasLtContext, Destroy> blas_;
  std::unique_ptr<cudnnContext, Destroy> dnn_;
  std::string environment_;
};

// cuBLASLt's advice for Hopper, and more than cuDNN asks for at the shapes here.
inline constexpr int64_t kPlanWorkspaceBytes = int64_t{64} << 20;

// How a plan finds the algorithm that the cache does not know. kFirst takes what the library would
// recommend, the same in every run; kTimed tries the first few, so that without a cache two runs
// may choose differently and differ in their last bits.
enum class Tuning { kFirst, kTimed };

// What every plan is made with. All is borrowed, and outlives the plan.
struct Planning {
  const Libraries& libraries;
  PlanCache& cache;
  // Plans are tuned on it. They may run on others, one at a time: they share the workspace.
  cudaStream_t stream;
  void* workspace;  // aligned to 256 bytes
  int64_t workspace_bytes;
  Tuning tuning = Tuning::kTimed;
};

}  // namespace dp::engine::cuda
