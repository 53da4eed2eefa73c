// Layers without parameters that change the shape.

#include <cmath>
#include <optional>

#include "worker/engine/device/cpu/cpu_layer.h"
#include "worker/engine/device/cpu/cpu_nan.h"
#include "worker/engine/device/cpu/cpu_relu_gradient.h"

namespace dp::engine {
namespace {

using dnnl::memory;

class CpuMaxPool2d : public CpuLayer {
 public:
  CpuMaxPool2d(const CpuLayerInput& input, bool relu_gradient)
      : cpu_(input.cpu),
        windows_(WindowsOf(input)),
        in_(input.in),
        desc_(ForwardDesc(input)),
        forward_(desc_) {
    out_ = MakeActivation(cpu_, desc_.dst_desc(), in_.needs_gradient());
    workspace_ = memory(desc_.workspace_desc(), cpu_.engine);
    if (in_.needs_gradient()) backward_ = dnnl::pooling_backward(BackwardDesc(input));
    if (relu_gradient) relu_gradient_.emplace(cpu_, out_);
  }

  void Forward(const Batch&, Mode) override {
    cpu_.Run(
        forward_,
        {{DNNL_ARG_SRC, in_.value}, {DNNL_ARG_DST, out_.value}, {DNNL_ARG_WORKSPACE, workspace_}});
    if (MayHaveNan()) PassNanOfWindows(in_.value, windows_, out_.value);
  }

  void Backward(const std::function<void()>&) override {
    if (!in_.needs_gradient()) return;
    if (relu_gradient_) relu_gradient_->Run();
    cpu_.Run(backward_, {{DNNL_ARG_DIFF_DST, out_.gradient},
                         {DNNL_ARG_WORKSPACE, workspace_},
                         {DNNL_ARG_DIFF_SRC, in_.gradient}});
  }

 private:
  static constexpr auto kAlgorithm = dnnl::algorithm::pooling_max;

  static PoolWindows WindowsOf(const CpuLayerInput& input) {
    const auto& pool = std::get<model::MaxPool2d>(input.layer.kind);
    return {pool.kernel, pool.stride};
  }
  bool MayHaveNan() const {
    if (in_.without_nan != nullptr) return !*in_.without_nan;
    return std::isnan(LargestMagnitude(Values(in_.value)));
  }

  dnnl::pooling_forward::primitive_desc ForwardDesc(const CpuLayerInput& input) const {
    const memory::desc out(PlainDesc(input.batch_size, input.layer.out).dims(),
                           memory::data_type::f32, memory::format_tag::any);
    return {{dnnl::prop_kind::forward_training,
             kAlgorithm,
             input.in.value.get_desc(),
             out,
             {windows_.stride, windows_.stride},
             {windows_.kernel, windows_.kernel},
             {0, 0},
             {0, 0}},
            input.cpu.engine};
  }
  dnnl::pooling_backward::primitive_desc BackwardDesc(const CpuLayerInput& input) const {
    return {{kAlgorithm,
             in_.value.get_desc(),
             out_.value.get_desc(),
             {windows_.stride, windows_.stride},
             {windows_.kernel, windows_.kernel},
             {0, 0},
             {0, 0}},
            input.cpu.engine,
            desc_};
  }

  CpuStream& cpu_;
  const PoolWindows windows_;
  const Activation in_;
  dnnl::pooling_forward::primitive_desc desc_;
  dnnl::pooling_forward forward_;
  dnnl::pooling_backward backward_;
  std::optional<ReluGradient> relu_gradient_;
  memory workspace_;  // which element of each window was the largest
};

// In plain order, flattening is only another description of the same memory.
class CpuFlatten : public CpuLayer {
 public:
  explicit CpuFlatten(const CpuLayerInput& input)
      : in_(input.cpu, input.in.value, PlainDesc(input.batch_size, input.layer.in)) {
    const memory::desc flat = PlainDesc(input.batch_size, input.layer.out);
    out_.value = memory(flat, input.cpu.engine, in_.memory().get_data_handle());
    if (!input.in.needs_gradient()) return;
    in_gradient_.emplace(input.cpu, input.in.gradient, PlainDesc(input.batch_size, input.layer.in));
    out_.gradient = memory(flat, input.cpu.engine, in_gradient_->memory().get_data_handle());
  }

  void Forward(const Batch&, Mode) override { in_.Fetch(); }
  void Backward(const std::function<void()>&) override {
    if (in_gradient_) in_gradient_->Store();
  }

 private:
  Formatted in_;
  std::optional<Formatted> in_gradient_;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::MaxPool2d&, const CpuLayerInput& input) {
  return std::make_unique<CpuMaxPool2d>(input, input.options.pooled_relu);
}

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Flatten&, const CpuLayerInput& input) {
  return std::make_unique<CpuFlatten>(input);
}

}  // namespace dp::engine
