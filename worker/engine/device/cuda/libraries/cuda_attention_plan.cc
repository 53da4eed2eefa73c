#include "worker/engine/device/cuda/libraries/cuda_attention_plan.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/program/log.h"
#include "base/status.h"

namespace dp::engine::cuda {
namespace {

// The first query, key and value in a packed array.
struct PackedHeads {
  void* queries;
  void* keys;
  void* values;
};

PackedHeads HeadsOf(void* packed, const AttentionShape& shape) {
  const int64_t bytes = shape.features() * ByteSize(ElementType::kBfloat16);
  char* first = static_cast<char*>(packed);
  // A scratch that is not read may be null; its addresses are then null as well.
  if (first == nullptr) return {nullptr, nullptr, nullptr};
  return {first, first + bytes, first + 2 * bytes};
}

// The addresses in the order of MakeForwardGraph's stored tensors.
std::vector<void*> ForwardAddresses(const AttentionShape& shape,
                                    const AttentionOperands& operands) {
  const PackedHeads in = HeadsOf(operands.in, shape);
  return {in.queries, in.keys, in.values, operands.out, operands.log_sums};
}

// The addresses in the order of MakeBackwardGraph's stored tensors.
std::vector<void*> BackwardAddresses(const AttentionShape& shape, const AttentionOperands& operands,
                                     void* row_products) {
  const PackedHeads in = HeadsOf(operands.in, shape);
  const PackedHeads gradient = HeadsOf(operands.in_gradient, shape);
  return {in.queries,       in.keys,           in.values,
          operands.out,     operands.log_sums, operands.out_gradient,
          gradient.queries, gradient.keys,     gradient.values,
          row_products};
}

}  // namespace

absl::StatusOr<AttentionPlan> AttentionPlan::Make(const Planning& planning,
                                                  const AttentionShape& shape, bool training,
                                                  const AttentionOperands& scratch) {
  absl::StatusOr<AttentionPlan> made = MakeBoth(planning, shape, training, scratch);
  if (absl::IsUnimplemented(made.status())) {
    Log(Severity::kWarning, "gpu_attention_not_fused",
        {{"error", std::string(made.status().message())}});
  }
  return made;
}

absl::StatusOr<AttentionPlan> AttentionPlan::MakeBoth(const Planning& planning,
                                                      const AttentionShape& shape, bool training,
                                                      const AttentionOperands& scratch) {
  const std::string name = Describe(shape, false);
  const std::string why_not = WhyNot(shape);
  if (!why_not.empty()) return absl::UnimplementedError(absl::StrCat(name, ": ", why_not));
  DP_ASSIGN_OR_RETURN(CudnnPlan forward,
                      CudnnPlan::Make(planning, MakeForwardGraph(shape), {.name = name},
                                      ForwardAddresses(shape, scratch)));
  AttentionPlan plan(shape, std::move(forward));
  if (training) DP_RETURN_IF_ERROR(plan.MakeBackward(planning, scratch));
  return plan;
}

absl::Status AttentionPlan::MakeBackward(const Planning& planning,
                                         const AttentionOperands& scratch) {
  DP_ASSIGN_OR_RETURN(row_products_,
                      DeviceBuffer::Allocate(shape_.rows() * ByteSize(ElementType::kFloat32)));
  const CudnnPlanOptions options{.name = Describe(shape_, true),
                                 .own_workspace_bytes = kAttentionWorkspaceMax};
  DP_ASSIGN_OR_RETURN(CudnnPlan backward,
                      CudnnPlan::Make(planning, MakeBackwardGraph(shape_), options,
                                      BackwardAddresses(shape_, scratch, row_products_.data())));
  backward_.emplace(std::move(backward));
  return absl::OkStatus();
}

absl::Status AttentionPlan::Forward(cudaStream_t stream, const AttentionOperands& operands) {
  return forward_.Run(stream, ForwardAddresses(shape_, operands));
}

absl::Status AttentionPlan::Backward(cudaStream_t stream, const AttentionOperands& operands) {
  DP_CHECK(backward_.has_value());
  return backward_->Run(stream, BackwardAddresses(shape_, operands, row_products_.data()));
}

}  // namespace dp::engine::cuda
