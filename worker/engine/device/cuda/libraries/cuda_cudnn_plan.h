#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/device/cuda/libraries/cuda_cudnn_engines.h"
#include "worker/engine/device/cuda/libraries/cuda_cudnn_graph.h"
#include "worker/engine/device/cuda/plans/cuda_planning.h"
#include "worker/engine/device/cuda/runtime/cuda_memory.h"

namespace dp::engine::cuda {

struct CudnnPlanOptions {
  std::string name;                 // in the cache and in errors
  Exactness exactness = {};         // of the engines that may compute it
  int64_t own_workspace_bytes = 0;  // allowed where Planning's workspace is too small
};

// A CudnnGraph that is ready to run on the current device, by one of its exact engines. Not
// thread-safe.
class CudnnPlan {
 public:
  // Runs candidates on `scratch`, which has addresses as for Run; Tuning::kFirst does not read it.
  // Errors: Unimplemented no exact engine computes the graph within the workspace.
  static absl::StatusOr<CudnnPlan> Make(const Planning& planning, CudnnGraph graph,
                                        const CudnnPlanOptions& options,
                                        absl::Span<void* const> scratch);

  // Queues the plan. `addresses` has one for each of CudnnGraph::stored(), aligned to 16 bytes.
  absl::Status Run(cudaStream_t stream, absl::Span<void* const> addresses);

 private:
  CudnnPlan(const Planning& planning, CudnnGraph graph, const CudnnPlanOptions& options);
  absl::Status Choose(const Planning& planning, absl::Span<void* const> scratch);
  absl::Status Build(int engine);
  absl::Status TakeWorkspace(int64_t bytes);

  CudnnGraph graph_;
  std::vector<CudnnEngine> engines_;  // of graph_
  // By engine; empty until it is built. A plan uses its engine's configuration.
  std::vector<CudnnDescriptor> plans_;
  CudnnPlanOptions options_;
  cudnnHandle_t dnn_;
  void* shared_workspace_;
  int64_t shared_workspace_bytes_;
  DeviceBuffer own_workspace_;
  void* workspace_ = nullptr;
  int chosen_ = 0;  // the engine that Run runs
};

}  // namespace dp::engine::cuda
