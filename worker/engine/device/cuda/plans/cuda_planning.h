#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/engine/device/cuda/plans/cuda_plan_cache.h"

namespace dp::engine::cuda {

// The handles of cuBLASLt and cuDNN on the current device. Owned by the device, outlives every
// plan. Not thread-safe.
class Libraries {
 public:
  // Errors: Unavailable there is no device; Internal, with the library's message.
  static absl::StatusOr<Libraries> Open();

  cublasLtHandle_t blas() const { return blas_.get(); }
  cudnnHandle_t dnn() const { return dnn_.get(); }
  // The facts that an algorithm's bits and speed depend on, for PlanCache: "NVIDIA H100 80GB HBM3,
  // 132 SMs, cublasLt 130100, cudnn 91900".
  const std::string& environment() const { return environment_; }
  // The card's processors.
  int sms() const { return sms_; }

 private:
  struct Destroy {
    void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
    void operator()(cudnnHandle_t handle) const { cudnnDestroy(handle); }
  };
  Libraries() = default;

  std::unique_ptr<cublasLtContext, Destroy> blas_;
  std::unique_ptr<cudnnContext, Destroy> dnn_;
  std::string environment_;
  int sms_ = 0;
};

// cuBLASLt's recommendation for Hopper, and more than cuDNN asks for at our shapes.
inline constexpr int64_t kPlanWorkspaceBytes = int64_t{64} << 20;

// How a plan finds an algorithm that the cache does not know. kFirst takes the library's
// recommendation, the same in every run. kTimed times the first few: without a cache two runs may
// choose differently, and so differ in their last bits.
enum class Tuning { kFirst, kTimed };

// The inputs of every plan. All of them are borrowed, and outlive the plan.
struct Planning {
  const Libraries& libraries;
  PlanCache& cache;
  // Plans are tuned on this stream. They may run on others, one at a time: they share the
  // workspace.
  cudaStream_t stream;
  void* workspace;  // aligned to 256 bytes
  int64_t workspace_bytes;
  // How long the card has computed for timings so far, in milliseconds.
  float& busy_ms;
  Tuning tuning = Tuning::kTimed;
};

}  // namespace dp::engine::cuda
