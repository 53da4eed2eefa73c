#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "worker/engine/collectives/testing/fake_kernels.h"
#include "worker/library/memory/device_math.h"
#include "worker/library/memory/host_math.h"

// For tests over FakeNccl or FakeCuda: plain loops as the kernels of its streams.

namespace dp::library {
namespace {

class MathOnFake : public ArrayMath {
 public:
  MathOnFake(engine::FakeKernels& gpu, void* stream) : gpu_(gpu), stream_(stream) {}

  absl::Status Convert(engine::ConstElements from, engine::Elements to) override {
    return Give([=] { (void)HostMath().Convert(from, to); });
  }
  absl::Status Scale(engine::Elements values, double factor) override {
    return Give([=] { (void)HostMath().Scale(values, factor); });
  }
  absl::Status SumSquares(engine::ConstElements values, absl::Span<double> sums) override {
    return Give([=] { (void)HostMath().SumSquares(values, sums); });
  }
  absl::Status Sum(absl::Span<const uint8_t* const> arrays, engine::Elements sum) override {
    const std::vector<const uint8_t*> given(arrays.begin(), arrays.end());
    return Give([=] { (void)HostMath().Sum(given, sum); });
  }
  // Some, so that a caller which gives none shows.
  size_t Workspace(const ChannelShape& shape) const override { return shape.channels; }
  absl::Status SumUp(const ChannelShape& shape, const float* values, double* workspace,
                     double* packed) override {
    return Give([=] {
      workspace[shape.channels - 1] = 0;
      (void)HostMath().SumUp(shape, values, nullptr, packed);
    });
  }
  absl::Status Combine(size_t channels, size_t ranks, const double* packed,
                       const BatchNormOptions& options, const BatchNormState& state,
                       float* running_mean, float* running_var) override {
    return Give([=] {
      (void)HostMath().Combine(channels, ranks, packed, options, state, running_mean, running_var);
    });
  }
  absl::Status TakeRunning(size_t channels, const float* running_mean, const float* running_var,
                           double eps, const BatchNormState& state) override {
    return Give(
        [=] { (void)HostMath().TakeRunning(channels, running_mean, running_var, eps, state); });
  }
  absl::Status Normalize(const ChannelShape& shape, const float* in, const float* weight,
                         const float* bias, const BatchNormState& state, float* out) override {
    return Give([=] { (void)HostMath().Normalize(shape, in, weight, bias, state, out); });
  }
  absl::Status SumGradients(const ChannelShape& shape, const float* in, const float* out_grad,
                            const BatchNormState& state, double* workspace, double* sums) override {
    return Give([=] {
      workspace[shape.channels - 1] = 0;
      (void)HostMath().SumGradients(shape, in, out_grad, state, nullptr, sums);
    });
  }
  absl::Status AddGradients(size_t channels, const double* sums, float* weight_grad,
                            float* bias_grad) override {
    return Give([=] { (void)HostMath().AddGradients(channels, sums, weight_grad, bias_grad); });
  }
  absl::Status InputGradient(const ChannelShape& shape, const float* in, const float* out_grad,
                             const float* weight, const BatchNormState& state, const double* sums,
                             float* in_grad) override {
    return Give(
        [=] { (void)HostMath().InputGradient(shape, in, out_grad, weight, state, sums, in_grad); });
  }

 private:
  absl::Status Give(std::function<void()> kernel) {
    gpu_.Enqueue(stream_, std::move(kernel));
    return absl::OkStatus();
  }

  engine::FakeKernels& gpu_;
  void* const stream_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ArrayMath>> MakeDeviceMath(const GpuUse& use) {
  return std::make_unique<MathOnFake>(dynamic_cast<engine::FakeKernels&>(*use.cuda), use.stream);
}

}  // namespace dp::library
