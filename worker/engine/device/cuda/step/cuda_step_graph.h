#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/ddp/reducer.h"
#include "worker/engine/device/cuda/network/cuda_data_set.h"
#include "worker/engine/device/cuda/network/cuda_device_context.h"
#include "worker/engine/device/cuda/network/cuda_device_optimizer.h"
#include "worker/engine/device/cuda/network/cuda_network.h"
#include "worker/engine/device/cuda/runtime/cuda_graph.h"
#include "worker/engine/device/cuda/runtime/cuda_pinned_ring.h"
#include "worker/engine/device/cuda/step/cuda_step_graph_book.h"
#include "worker/engine/device/device.h"

namespace dp::engine::cuda {

// Whole steps as CUDA graphs. A rank that is alone has one graph: gathering, forward, loss,
// backward and the optimizer's update. With several ranks each piece after which a bucket of
// gradients is complete is a graph (cuda_step_cut.h), and each bucket's update follows its
// all-reduce. NCCL's kernels are in no graph, because the thread that watches over them queues
// them.
//
// For each step the host queues a copy of what changes, the graphs, a copy of the tail into
// page-locked memory, and an event. The host waits only for the step that lies kStepsUnderWay back.
// The context records errors of the device. Not thread-safe.
class CudaStepProgram : public StepProgram {
 public:
  // Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<StepProgram>> Make(DeviceContext& context,
                                                           const Parts& parts);
  ~CudaStepProgram() override;

  absl::Status Begin(const Input& input) override;
  StepTail End() override;
  int under_way() const override { return static_cast<int>(begun_ - ended_); }
  int under_way_max() const override;
  bool has_data() const override { return data_ != nullptr; }

 private:
  struct FreeHost {
    void operator()(StepTail* tails) const { cudaFreeHost(tails); }
  };

  CudaStepProgram(DeviceContext& context, const Parts& parts);
  absl::Status Prepare(const Dataset& data);

  absl::Status Stage(const Input& input);
  absl::Status RoundValues();
  // Queue the step whose batch is staged, and report complete gradients to the reducer.
  absl::Status QueuePieces();
  absl::Status QueuePiece(size_t piece);
  bool Capture(size_t piece);
  void NoteCaptured();
  void TellReady(size_t piece);
  // Averages and updates, bucket by bucket. Clipping needs the norm of all gradients, so all
  // updates then follow the last bucket. Errors: the group's.
  absl::Status Exchange();
  absl::Status QueueUpdate(const Bucket& bucket);
  absl::Status QueueResult(size_t slot);
  size_t begin_of(size_t piece) const { return piece == 0 ? 0 : ends_[piece - 1]; }
  StepForm form() const;

  DeviceContext& context_;
  CudaNetwork& network_;
  CudaOptimizer& optimizer_;
  Reducer* const reducer_;
  float* const tail_;
  const std::vector<size_t> ends_;  // of pieces
  std::unique_ptr<CudaDataset> data_;
  StepGraphBook book_;
  std::vector<GraphExec> graphs_;  // by piece
  PinnedRing staging_;
  // By slot, for steps under way. The device writes a tail, in page-locked memory, until `done_`.
  std::vector<Event> done_;
  std::unique_ptr<StepTail[], FreeHost> tails_;
  int64_t begun_ = 0;
  int64_t ended_ = 0;
  int64_t rounded_changes_ = -1;  // context_.changes() when values were last rounded
};

}  // namespace dp::engine::cuda
