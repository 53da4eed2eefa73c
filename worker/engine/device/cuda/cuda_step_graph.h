#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/device/cuda/cuda_cross_entropy.h"
#include "worker/engine/device/cuda/cuda_data_set.h"
#include "worker/engine/device/cuda/cuda_device_context.h"
#include "worker/engine/device/cuda/cuda_device_optimizer.h"
#include "worker/engine/device/cuda/cuda_graph.h"
#include "worker/engine/device/cuda/cuda_network.h"
#include "worker/engine/device/cuda/cuda_pinned_ring.h"
#include "worker/engine/device/cuda/cuda_step_graph_book.h"
#include "worker/engine/device/device.h"

namespace dp::engine::cuda {

// Whole steps as one CUDA graph: gathering, forward, loss, backward and the optimizer's update. For
// each step the host queues a copy of what changes, the graph, and a copy of the loss into
// page-locked memory behind which an event stands; it waits for nothing but a step that lies
// kStepsUnderWay back. Errors are the context's. Not thread-safe.
class CudaStepProgram : public StepProgram {
 public:
  // Errors: ResourceExhausted. All that is passed outlives it.
  static absl::StatusOr<std::unique_ptr<StepProgram>> Make(DeviceContext& context,
                                                           CudaNetwork& network,
                                                           CudaOptimizer& optimizer,
                                                           const Dataset& data);
  ~CudaStepProgram() override;

  void Begin(const Input& input) override;
  BatchResult End() override;
  int under_way() const override { return static_cast<int>(begun_ - ended_); }
  int under_way_max() const override;
  bool has_data() const override { return data_ != nullptr; }

 private:
  // Of a step under way. The sums are in page-locked memory, written by the device until `done`.
  struct Slot {
    Event done;
    int count = 0;
  };
  struct FreeHost {
    void operator()(LossSums* sums) const { cudaFreeHost(sums); }
  };

  CudaStepProgram(DeviceContext& context, CudaNetwork& network, CudaOptimizer& optimizer)
      : context_(context), network_(network), optimizer_(optimizer) {}
  absl::Status Prepare(const Dataset& data);

  absl::Status Stage(const Input& input);
  // Queues the step whose batch is staged.
  absl::Status QueueStep();
  absl::Status Capture();
  absl::Status QueueOperations();
  absl::Status QueueResult(size_t slot);
  StepForm form() const;

  DeviceContext& context_;
  CudaNetwork& network_;
  CudaOptimizer& optimizer_;
  std::unique_ptr<CudaDataset> data_;
  StepGraphBook book_;
  GraphExec graph_;
  PinnedRing staging_;
  std::vector<Slot> slots_;
  std::unique_ptr<LossSums[], FreeHost> results_;  // by slot
  int64_t begun_ = 0;
  int64_t ended_ = 0;
  int64_t rounded_changes_ = -1;  // the context's changes, when values were last rounded
};

}  // namespace dp::engine::cuda
