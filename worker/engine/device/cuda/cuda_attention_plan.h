#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/device/cuda/cuda_attention.h"
#include "worker/engine/device/cuda/cuda_planning.h"

namespace dp::engine::cuda {

// For the cache and for errors: "attention forward b=8 t=1024 h=12 d=64".
std::string Describe(const AttentionShape& shape, bool backward);

// Why no plan is made for a shape, empty if nothing is known against it: what cuDNN's fused kernels
// are not asked for. Heads must be multiples of 8 wide, and at most 128.
std::string WhyNot(const AttentionShape& shape);

// Device memory, aligned to 16 bytes. The layout is that of CausalAttentionForward, in bfloat16:
// each head is read and written where it lies in the packed rows.
struct AttentionOperands {
  void* in = nullptr;  // samples x tokens x 3 features: queries, keys, values, each head after head
  void* out = nullptr;  // samples x tokens x features
  // samples x heads x tokens, of each row of scores: its maximum + log of the sum of exponentials
  // above it. Forward leaves it for backward.
  float* log_sums = nullptr;
  void* out_gradient = nullptr;  // as out
  void* in_gradient = nullptr;   // as in; overwritten
};

// model::CausalAttention in bfloat16 through cuDNN's fused attention (FlashAttention: no tokens x
// tokens array is made; Dao, "FlashAttention-2", 2023), forward and, for training, backward, in the
// form that gives the same bits in every run. Owned by a layer; not thread-safe.
class AttentionPlan {
 public:
  // As ConvolutionPlan::Make. `training`: also makes backward, and forward keeps log_sums.
  // Errors: Unimplemented where cuDNN has no engine, WhyNot says so or the build has no cuDNN
  // front end; CausalAttentionForward, in float32, is what is left then.
  static absl::StatusOr<AttentionPlan> Make(const Planning& planning, const AttentionShape& shape,
                                            bool training, const AttentionOperands& scratch);

  AttentionPlan(AttentionPlan&&) noexcept;
  AttentionPlan& operator=(AttentionPlan&&) noexcept;
  ~AttentionPlan();

  // Queue a pass. They wait for nothing and allocate nothing, and may be captured. Forward writes
  // out and log_sums; Backward reads both again and in, and writes in_gradient.
  absl::Status Forward(cudaStream_t stream, const AttentionOperands& operands);
  absl::Status Backward(cudaStream_t stream, const AttentionOperands& operands);

 private:
  struct Graphs;
  explicit AttentionPlan(std::unique_ptr<Graphs> graphs);

  std::unique_ptr<Graphs> graphs_;
};

}  // namespace dp::engine::cuda
