#include "worker/engine/device/cuda/libraries/cuda_attention_plan.h"

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/program/log.h"
#include "base/status.h"
#include "worker/engine/device/cuda/plans/cuda_plan_tuning.h"

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

}  // namespace

absl::StatusOr<AttentionPlan> AttentionPlan::Make(const Planning& planning,
                                                  const AttentionShape& shape,
                                                  const AttentionOptions& options,
                                                  const AttentionOperands& scratch) {
  absl::StatusOr<AttentionPlan> made = MakeBoth(planning, shape, options, scratch);
  if (absl::IsUnimplemented(made.status())) {
    Log(Severity::kWarning, "gpu_attention_not_fused",
        {{"error", std::string(made.status().message())}});
  }
  return made;
}

absl::StatusOr<AttentionPlan> AttentionPlan::MakeBoth(const Planning& planning,
                                                      const AttentionShape& shape,
                                                      const AttentionOptions& options,
                                                      const AttentionOperands& scratch) {
  const std::string name = Describe(shape, AttentionPass::kForward);
  const std::string why_not = WhyNot(shape);
  if (!why_not.empty()) return absl::UnimplementedError(absl::StrCat(name, ": ", why_not));
  DP_ASSIGN_OR_RETURN(CudnnPlan forward,
                      CudnnPlan::Make(planning, MakeForwardGraph(shape), {.name = name},
                                      ForwardAddresses(shape, scratch)));
  AttentionPlan plan(shape, std::move(forward));
  if (options.training) DP_RETURN_IF_ERROR(plan.MakeBackward(planning, options, scratch));
  return plan;
}

absl::Status AttentionPlan::MakeBackward(const Planning& planning, const AttentionOptions& options,
                                         const AttentionOperands& scratch) {
  DP_ASSIGN_OR_RETURN(row_products_,
                      DeviceBuffer::Allocate(shape_.rows() * ByteSize(ElementType::kFloat32)));
  if (!options.deterministic) return ChooseBackward(planning, scratch);
  DP_ASSIGN_OR_RETURN(BackwardPlan form, MakeForm(planning, AttentionPass::kBackward, scratch));
  backward_.emplace(std::move(form));
  return absl::OkStatus();
}

// The deterministic form comes first: of two that are equally fast, it wins.
absl::Status AttentionPlan::ChooseBackward(const Planning& planning,
                                           const AttentionOperands& scratch) {
  constexpr AttentionPass kForms[] = {AttentionPass::kBackward, AttentionPass::kAtomicBackward};
  std::array<std::optional<BackwardPlan>, 2> made;  // a form is made when it is first built
  int chosen = 0;
  const auto build = [&](int i) -> absl::Status {
    if (!made[i].has_value()) {
      DP_ASSIGN_OR_RETURN(BackwardPlan form, MakeForm(planning, kForms[i], scratch));
      made[i].emplace(std::move(form));
    }
    chosen = i;
    return absl::OkStatus();
  };
  DP_RETURN_IF_ERROR(BuildBest(
      planning, {.plan = absl::StrCat(Describe(shape_, kForms[0]), " deterministic or atomic"),
                 .candidates = {"deterministic", "atomic"},
                 .build = build,
                 .run = [&] { return RunForm(planning.stream, *made[chosen], scratch); }}));
  backward_ = std::move(made[chosen]);
  return absl::OkStatus();
}

absl::StatusOr<AttentionPlan::BackwardPlan> AttentionPlan::MakeForm(
    const Planning& planning, AttentionPass pass, const AttentionOperands& scratch) const {
  const bool atomic = pass == AttentionPass::kAtomicBackward;
  const CudnnPlanOptions options{.name = Describe(shape_, pass),
                                 .exactness = {.same_bits = !atomic},
                                 .own_workspace_bytes = kAttentionWorkspaceMax};
  DeviceBuffer queries_sums;
  if (atomic) {
    if (cudnnGetVersion() < kCudnnClearsSums) {
      return absl::UnimplementedError(absl::StrCat(options.name, ": cuDNN is older than 9.6"));
    }
    DP_ASSIGN_OR_RETURN(queries_sums, DeviceBuffer::Allocate(shape_.rows() * shape_.head_features *
                                                             ByteSize(ElementType::kFloat32)));
  }
  DP_ASSIGN_OR_RETURN(
      CudnnPlan plan,
      CudnnPlan::Make(planning,
                      atomic ? MakeAtomicBackwardGraph(shape_) : MakeBackwardGraph(shape_), options,
                      BackwardAddresses(scratch, queries_sums)));
  return BackwardPlan{std::move(plan), std::move(queries_sums)};
}

// The addresses in the order of the backward graphs' stored tensors.
std::vector<void*> AttentionPlan::BackwardAddresses(const AttentionOperands& operands,
                                                    const DeviceBuffer& queries_sums) const {
  const PackedHeads in = HeadsOf(operands.in, shape_);
  const PackedHeads gradient = HeadsOf(operands.in_gradient, shape_);
  std::vector<void*> addresses = {in.queries,          in.keys,           in.values,
                                  operands.out,        operands.log_sums, operands.out_gradient,
                                  gradient.queries,    gradient.keys,     gradient.values,
                                  row_products_.data()};
  if (queries_sums.bytes() > 0) addresses.push_back(queries_sums.data());
  return addresses;
}

absl::Status AttentionPlan::RunForm(cudaStream_t stream, BackwardPlan& form,
                                    const AttentionOperands& operands) const {
  return form.plan.Run(stream, BackwardAddresses(operands, form.queries_sums));
}

absl::Status AttentionPlan::Forward(cudaStream_t stream, const AttentionOperands& operands) {
  return forward_.Run(stream, ForwardAddresses(shape_, operands));
}

absl::Status AttentionPlan::Backward(cudaStream_t stream, const AttentionOperands& operands) {
  DP_CHECK(backward_.has_value());
  return RunForm(stream, *backward_, operands);
}

}  // namespace dp::engine::cuda
