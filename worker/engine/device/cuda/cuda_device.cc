#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/engine/device/cuda/arrays/cuda_finite.h"
#include "worker/engine/device/cuda/arrays/cuda_sum.h"
#include "worker/engine/device/cuda/network/cuda_device_context.h"
#include "worker/engine/device/cuda/network/cuda_device_optimizer.h"
#include "worker/engine/device/cuda/network/cuda_network.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"
#include "worker/engine/device/cuda/snapshots/cuda_snapshots.h"
#include "worker/engine/device/cuda/step/cuda_step_graph.h"
#include "worker/engine/device/device.h"

namespace dp::engine {
namespace cuda {
namespace {

class CudaArray final : public Array {
 public:
  explicit CudaArray(DeviceBuffer buffer) : buffer_(std::move(buffer)) {}

  absl::Span<float> span() override {
    return {buffer_.as<float>(), static_cast<size_t>(buffer_.bytes()) / sizeof(float)};
  }

 private:
  const DeviceBuffer buffer_;
};

class CudaDevice final : public Device {
 public:
  // `found`: room for an int32_t.
  CudaDevice(DeviceContext context, DeviceBuffer found)
      : context_(std::move(context)), found_(std::move(found)) {}

  absl::StatusOr<std::unique_ptr<Array>> Allocate(int64_t size) override {
    context_.Use();
    DP_ASSIGN_OR_RETURN(DeviceBuffer buffer,
                        DeviceBuffer::Allocate(size * static_cast<int64_t>(sizeof(float))));
    DP_RETURN_IF_ERROR(buffer.Zero(context_.stream()));
    // Work outside the stream may write there next.
    DP_RETURN_IF_ERROR(context_.Synchronize());
    return std::make_unique<CudaArray>(std::move(buffer));
  }

  absl::StatusOr<std::unique_ptr<Network>> Compile(absl::Span<const model::CheckedLayer> layers,
                                                   const NetworkOptions& options,
                                                   absl::Span<const float> values,
                                                   absl::Span<float> gradients) override {
    context_.Use();
    absl::StatusOr<std::unique_ptr<CudaNetwork>> network =
        CudaNetwork::Make(context_, layers, options, values, gradients);
    if (absl::IsResourceExhausted(network.status())) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the GPU has too little memory for the model at batch size ",
                       options.batch_size, ": ", network.status().message()));
    }
    DP_RETURN_IF_ERROR(network.status());
    context_.SavePlans();
    return *std::move(network);
  }

  absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(
      const OptimizerOptions& options, const ParameterLayout& layout, absl::Span<float> values,
      absl::Span<const float> gradients) override {
    context_.Use();
    return MakeCudaOptimizer(context_, options, layout, values, gradients);
  }

  absl::StatusOr<std::unique_ptr<StepProgram>> MakeStepProgram(
      const StepProgram::Parts& parts) override {
    context_.Use();
    return CudaStepProgram::Make(context_, parts);
  }

  void Accumulate(absl::Span<const float> from, bool first, absl::Span<float> sum) override {
    DP_CHECK(from.size() == sum.size());
    context_.Use();
    context_.Do([&]() -> absl::Status {
      const auto size = static_cast<int64_t>(from.size());
      const float* const terms[] = {sum.data(), from.data()};
      DP_CUDA_RETURN_IF_ERROR(first ? cudaMemcpyAsync(sum.data(), from.data(),
                                                      from.size() * sizeof(float),
                                                      cudaMemcpyDeviceToDevice, context_.stream())
                                    : Sum(context_.stream(), terms, 2, size, sum.data()));
      return absl::OkStatus();
    });
  }
  void Write(absl::Span<const float> host, absl::Span<float> array) override {
    DP_CHECK(host.size() == array.size());
    Copy(host.data(), array.data(), host.size(), cudaMemcpyHostToDevice);
    context_.ArraysChanged();
  }
  void Read(absl::Span<const float> array, absl::Span<float> host) const override {
    DP_CHECK(host.size() == array.size());
    Copy(array.data(), host.data(), host.size(), cudaMemcpyDeviceToHost);
  }

  absl::StatusOr<std::unique_ptr<Snapshot>> TakeSnapshot(
      absl::Span<const absl::Span<const float>> arrays) const override {
    context_.Use();
    DP_RETURN_IF_ERROR(context_.status());
    DP_ASSIGN_OR_RETURN(std::unique_ptr<Snapshot> snapshot, snapshots_.Take(context_, arrays));
    if (snapshot != nullptr) return snapshot;
    return Device::TakeSnapshot(arrays);
  }
  absl::StatusOr<bool> AllFinite(absl::Span<const float> array) const override {
    context_.Use();
    int32_t found = 0;
    context_.Do([&] { return FindNotFinite(array, found); });
    DP_RETURN_IF_ERROR(context_.status());
    return found == 0;
  }

  std::string plans() const override { return context_.plans().Used(); }
  void TakePlans(absl::string_view plans) override { context_.plans().Take(plans); }

  absl::Status status() const override { return context_.status(); }
  void* stream() const override { return context_.stream(); }

 private:
  void Copy(const float* from, float* to, size_t size, cudaMemcpyKind kind) const {
    context_.Use();
    context_.Do([&]() -> absl::Status {
      DP_CUDA_RETURN_IF_ERROR(
          cudaMemcpyAsync(to, from, size * sizeof(float), kind, context_.stream()));
      return context_.Synchronize();
    });
  }

  absl::Status FindNotFinite(absl::Span<const float> array, int32_t& found) const {
    DP_RETURN_IF_ERROR(found_.Zero(context_.stream()));
    DP_CUDA_RETURN_IF_ERROR(cuda::FindNotFinite(
        context_.stream(), array.data(), static_cast<int64_t>(array.size()), found_.as<int32_t>()));
    DP_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(&found, found_.data(), sizeof(found),
                                            cudaMemcpyDeviceToHost, context_.stream()));
    return context_.Synchronize();
  }

  // mutable: Read() may record an error, and a snapshot's space is kept.
  mutable DeviceContext context_;
  mutable Snapshots snapshots_;
  mutable DeviceBuffer found_;  // of AllFinite; a full GPU has no memory for it later
};

}  // namespace
}  // namespace cuda

absl::StatusOr<std::unique_ptr<Device>> OpenCuda(int index) {
  DP_ASSIGN_OR_RETURN(cuda::DeviceContext context, cuda::DeviceContext::Open(index));
  DP_ASSIGN_OR_RETURN(cuda::DeviceBuffer found, cuda::DeviceBuffer::Allocate(sizeof(int32_t)));
  return std::make_unique<cuda::CudaDevice>(std::move(context), std::move(found));
}

}  // namespace dp::engine
