#include "worker/engine/device/cuda/libraries/cuda_cudnn_plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/engine/device/cuda/plans/cuda_plan_tuning.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"

namespace dp::engine::cuda {
namespace {

absl::Status NoEngine(size_t inexact, const Exactness& asked) {
  return absl::UnimplementedError(absl::StrCat(
      "cuDNN has no engine for it, but for ", inexact, " that ",
      asked.same_bits ? "may give other bits in another run or round their sums"
                      : "round their sums",
      asked.full_float32 ? " or their factors" : "",
      "; where it finds no libnvrtc, it has none of those that are compiled at run time"));
}

}  // namespace

CudnnPlan::CudnnPlan(const Planning& planning, CudnnGraph graph, const CudnnPlanOptions& options)
    : graph_(std::move(graph)),
      options_(options),
      dnn_(planning.libraries.dnn()),
      shared_workspace_(planning.workspace),
      shared_workspace_bytes_(planning.workspace_bytes) {}

absl::StatusOr<CudnnPlan> CudnnPlan::Make(const Planning& planning, CudnnGraph graph,
                                          const CudnnPlanOptions& options,
                                          absl::Span<void* const> scratch) {
  CudnnPlan plan(planning, std::move(graph), options);
  const absl::Status chosen = plan.Choose(planning, scratch);
  if (!chosen.ok()) {
    return absl::Status(chosen.code(), absl::StrCat(options.name, ": ", chosen.message()));
  }
  return plan;
}

absl::Status CudnnPlan::Choose(const Planning& planning, absl::Span<void* const> scratch) {
  const CudnnTarget target{.handle = dnn_};
  DP_RETURN_IF_ERROR(graph_.Finish(target));
  DP_ASSIGN_OR_RETURN(std::vector<CudnnEngine> found, FindCudnnEngines(graph_, target));
  std::vector<std::string> names;
  for (CudnnEngine& each : found) {
    if (!IsExact(each.notes, options_.exactness)) continue;
    names.push_back(each.name);
    engines_.push_back(std::move(each));
  }
  if (engines_.empty()) return NoEngine(found.size(), options_.exactness);
  plans_.resize(engines_.size());
  DP_RETURN_IF_ERROR(BuildBest(planning, {.plan = options_.name,
                                          .candidates = names,
                                          .timed_max = kCompiledMax,
                                          .build = [&](int i) { return Build(i); },
                                          .run = [&] { return Run(planning.stream, scratch); }}));
  for (size_t i = 0; i < plans_.size(); ++i) {
    if (static_cast<int>(i) != chosen_) plans_[i] = CudnnDescriptor();
  }
  return absl::OkStatus();
}

// Builds each engine's plan once. An engine may be compiled at run time. cuDNN 9.19 decodes its
// source in place, so a second compilation of the same configuration fails.
absl::Status CudnnPlan::Build(int engine) {
  CudnnDescriptor& plan = plans_[engine];
  if (plan.get() == nullptr) {
    CudnnDescriptor made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    made.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engines_[engine].config);
    made.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, dnn_);
    DP_RETURN_IF_ERROR(made.Finalize());
    plan = std::move(made);
  }
  int64_t bytes = 0;
  if (!plan.Get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, &bytes)) {
    return absl::InternalError("cuDNN does not say what workspace its plan needs");
  }
  DP_RETURN_IF_ERROR(TakeWorkspace(bytes));
  chosen_ = engine;
  return absl::OkStatus();
}

absl::Status CudnnPlan::TakeWorkspace(int64_t bytes) {
  if (bytes <= shared_workspace_bytes_) {
    own_workspace_ = DeviceBuffer();
    workspace_ = shared_workspace_;
    return absl::OkStatus();
  }
  if (bytes > options_.own_workspace_bytes) {
    return absl::UnimplementedError(absl::StrCat("an engine needs a workspace of ", bytes,
                                                 " bytes; there are ", shared_workspace_bytes_));
  }
  if (bytes > own_workspace_.bytes()) {
    own_workspace_ = DeviceBuffer();  // freed first, to make room for the next
    DP_ASSIGN_OR_RETURN(own_workspace_, DeviceBuffer::Allocate(bytes));
  }
  workspace_ = own_workspace_.data();
  return absl::OkStatus();
}

absl::Status CudnnPlan::Run(cudaStream_t stream, absl::Span<void* const> addresses) {
  std::vector<int64_t> tensors(graph_.stored().begin(), graph_.stored().end());
  std::vector<void*> values(addresses.begin(), addresses.end());
  DP_CHECK(tensors.size() == values.size());
  for (const void* address : values) {
    DP_CHECK(address != nullptr && reinterpret_cast<uintptr_t>(address) % 16 == 0);
  }
  // Scalars are passed by their addresses in host memory, and read before the call returns.
  std::vector<CudnnGraph::ScalarValue> scalars = graph_.scalars();
  for (CudnnGraph::ScalarValue& each : scalars) {
    tensors.push_back(each.tensor);
    values.push_back(&each.value);
  }
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
           absl::Span<const int64_t>(tensors));
  pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           absl::Span<void* const>(values));
  pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace_);
  DP_RETURN_IF_ERROR(pack.Finalize());
  DP_CUDA_RETURN_IF_ERROR(cudnnSetStream(dnn_, stream));
  DP_CUDA_RETURN_IF_ERROR(cudnnBackendExecute(dnn_, plans_[chosen_].get(), pack.get()));
  return absl::OkStatus();
}

}  // namespace dp::engine::cuda
