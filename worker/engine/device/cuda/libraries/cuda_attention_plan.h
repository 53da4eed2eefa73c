#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/device/cuda/libraries/cuda_attention_graph.h"
#include "worker/engine/device/cuda/libraries/cuda_cudnn_plan.h"
#include "worker/engine/device/cuda/plans/cuda_planning.h"
#include "worker/engine/device/cuda/runtime/cuda_memory.h"

namespace dp::engine::cuda {

// Addresses in device memory, aligned to 16 bytes. The layout is that of CausalAttentionForward, in
// bfloat16: each head is read and written where it lies in the packed rows.
struct AttentionOperands {
  void* in = nullptr;   // samples x tokens x 3 features: queries, keys, values, head after head
  void* out = nullptr;  // samples x tokens x features
  // samples x heads x tokens: for each row of scaled scores, the logarithm of its sum of
  // exponentials. Forward leaves it for backward.
  float* log_sums = nullptr;
  void* out_gradient = nullptr;  // as out
  void* in_gradient = nullptr;   // as in; overwritten
};

// The most that backward may allocate for scores. Beyond it the samples are too many or too long.
inline constexpr int64_t kAttentionWorkspaceMax = int64_t{8} << 30;

struct AttentionOptions {
  bool training = false;  // makes backward, too
  // The same bits in every run. Otherwise backward takes MakeAtomicBackwardGraph's form where that
  // is faster.
  bool deterministic = true;
};

// model::CausalAttention in bfloat16 through cuDNN's fused attention, forward and, for training,
// backward. This is FlashAttention, which keeps no tokens x tokens floats in memory (Dao,
// "FlashAttention-2", 2023). Backward allocates up to 2 bytes for each of samples x heads x tokens
// x tokens scores. The atomic form allocates 4 bytes for each element of the queries instead. Make
// one plan for all layers of a shape. Not thread-safe.
class AttentionPlan {
 public:
  // As ConvolutionPlan::Make. The cache keeps which form of backward was faster, too.
  // Errors: Unimplemented cuDNN has no engine, or WhyNot gives a reason; ResourceExhausted
  // backward's workspace exceeds the device's free memory. Unimplemented is also logged as a
  // warning, because the float32 CausalAttentionForward that is left is slow.
  static absl::StatusOr<AttentionPlan> Make(const Planning& planning, const AttentionShape& shape,
                                            const AttentionOptions& options,
                                            const AttentionOperands& scratch);

  // Queue a pass. They wait for nothing and allocate nothing on the device. They may be captured,
  // but only after a run outside a capture. Forward writes out and log_sums; Backward reads both
  // and in, and writes in_gradient.
  absl::Status Forward(cudaStream_t stream, const AttentionOperands& operands);
  absl::Status Backward(cudaStream_t stream, const AttentionOperands& operands);

 private:
  AttentionPlan(const AttentionShape& shape, CudnnPlan forward)
      : shape_(shape), forward_(std::move(forward)) {}
  // Backward in one of its forms.
  struct BackwardPlan {
    CudnnPlan plan;
    DeviceBuffer queries_sums;  // MakeAtomicBackwardGraph's; empty in the deterministic form
  };
  static absl::StatusOr<AttentionPlan> MakeBoth(const Planning& planning,
                                                const AttentionShape& shape,
                                                const AttentionOptions& options,
                                                const AttentionOperands& scratch);
  absl::Status MakeBackward(const Planning& planning, const AttentionOptions& options,
                            const AttentionOperands& scratch);
  absl::Status ChooseBackward(const Planning& planning, const AttentionOperands& scratch);
  absl::StatusOr<BackwardPlan> MakeForm(const Planning& planning, AttentionPass pass,
                                        const AttentionOperands& scratch) const;
  absl::Status RunForm(cudaStream_t stream, BackwardPlan& form,
                       const AttentionOperands& operands) const;
  std::vector<void*> BackwardAddresses(const AttentionOperands& operands,
                                       const DeviceBuffer& queries_sums) const;

  AttentionShape shape_;
  CudnnPlan forward_;
  DeviceBuffer row_products_;  // MakeBackwardGraph's
  std::optional<BackwardPlan> backward_;
};

}  // namespace dp::engine::cuda
