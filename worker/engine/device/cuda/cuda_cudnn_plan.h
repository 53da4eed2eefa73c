#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/device/cuda/cuda_cudnn_engines.h"
#include "worker/engine/device/cuda/cuda_cudnn_graph.h"
#include "worker/engine/device/cuda/cuda_memory.h"
#include "worker/engine/device/cuda/cuda_planning.h"

namespace dp::engine::cuda {

struct CudnnPlanOptions {
  std::string name;                 // in the cache and in errors
  bool full_float32 = false;        // IsExact's
  int64_t own_workspace_bytes = 0;  // what it may allocate where Planning's does not suffice
};

// A CudnnGraph made ready on the current device, by one of its exact engines. Not thread-safe.
class CudnnPlan {
 public:
  // `scratch`, as Run's addresses, is what candidates are run on; with Tuning::kFirst it is not
  // looked at. Errors: Unimplemented where no engine does it, within the workspace there is.
  static absl::StatusOr<CudnnPlan> Make(const Planning& planning, CudnnGraph graph,
                                        const CudnnPlanOptions& options,
                                        absl::Span<void* const> scratch);

  // Queues it. An address for each of CudnnGraph::stored(), aligned to 16 bytes.
  absl::Status Run(cudaStream_t stream, absl::Span<void* const> addresses);

 private:
  CudnnPlan(const Planning& planning, CudnnGraph graph, const CudnnPlanOptions& options);
  absl::Status Choose(const Planning& planning, absl::Span<void* const> scratch);
  absl::Status Build(const CudnnEngine& engine);
  absl::Status TakeWorkspace(int64_t bytes);

  CudnnGraph graph_;
  std::vector<CudnnEngine> engines_;  // found for it; the plan refers to one's configuration
  CudnnPlanOptions options_;
  cudnnHandle_t dnn_;
  void* shared_workspace_;
  int64_t shared_workspace_bytes_;
  DeviceBuffer own_workspace_;
  void* workspace_ = nullptr;
  CudnnDescriptor plan_;
};

}  // namespace dp::engine::cuda
