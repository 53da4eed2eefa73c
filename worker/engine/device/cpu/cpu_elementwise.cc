// Layers without parameters whose output has the shape of their input.

#include <optional>
#include <vector>

#include "base/random.h"
#include "worker/engine/device/cpu/cpu_layer.h"
#include "worker/engine/device/cpu/cpu_nan.h"

namespace dp::engine {
namespace {

// A function of each element. Backward offers its argument and its value; oneDNN takes whichever
// the derivative of `algorithm` needs.
class CpuElementwise : public CpuLayer {
 public:
  // `alpha`: the algorithm's parameter.
  CpuElementwise(const CpuLayerInput& input, dnnl::algorithm algorithm, float alpha = 0)
      : cpu_(input.cpu),
        algorithm_(algorithm),
        alpha_(alpha),
        in_(input.in),
        forward_(ForwardDesc(in_.value.get_desc())) {
    const dnnl::memory::desc format = in_.value.get_desc();
    out_ = MakeActivation(cpu_, format, in_.needs_gradient());
    if (in_.needs_gradient()) backward_ = dnnl::eltwise_backward(BackwardDesc(format));
  }

  void Forward(const Batch&, Mode) override {
    cpu_.Run(forward_, {{DNNL_ARG_SRC, in_.value}, {DNNL_ARG_DST, out_.value}});
  }

  void Backward(const std::function<void()>&) override {
    if (!in_.needs_gradient()) return;
    cpu_.Run(backward_, {{DNNL_ARG_SRC, in_.value},
                         {DNNL_ARG_DST, out_.value},
                         {DNNL_ARG_DIFF_DST, out_.gradient},
                         {DNNL_ARG_DIFF_SRC, in_.gradient}});
  }

 protected:
  const Activation& in() const { return in_; }

 private:
  dnnl::eltwise_forward::primitive_desc ForwardDesc(const dnnl::memory::desc& desc) const {
    return {{dnnl::prop_kind::forward_training, algorithm_, desc, alpha_}, cpu_.engine};
  }
  dnnl::eltwise_backward::primitive_desc BackwardDesc(const dnnl::memory::desc& desc) const {
    return {{algorithm_, desc, desc, alpha_}, cpu_.engine, ForwardDesc(desc)};
  }

  CpuStream& cpu_;
  const dnnl::algorithm algorithm_;
  const float alpha_;
  const Activation in_;
  dnnl::eltwise_forward forward_;
  dnnl::eltwise_backward backward_;
};

class CpuRelu : public CpuElementwise {
 public:
  explicit CpuRelu(const CpuLayerInput& input)
      : CpuElementwise(input, dnnl::algorithm::eltwise_relu_use_dst_for_bwd) {}

  void Forward(const Batch&, Mode) override { ReluOf(Values(in().value), Values(out_.value)); }
};

// A function that oneDNN computes by exponentials.
class CpuExponential : public CpuElementwise {
 public:
  using CpuElementwise::CpuElementwise;

  void Forward(const Batch& batch, Mode mode) override {
    CpuElementwise::Forward(batch, mode);
    PassNan(Values(in().value), Values(out_.value));
  }
};

// Works in plain order, where an element's place does not depend on formats.
class CpuDropout : public CpuLayer {
 public:
  CpuDropout(const CpuLayerInput& input, double p)
      : p_(p),
        seed_(input.options.seed),
        sample_size_(model::ElementCount(input.layer.in)),
        in_(input.cpu, input.in.value, PlainDesc(input.batch_size, input.layer.in)),
        scales_(sample_size_ * input.batch_size) {
    const auto plain = PlainDesc(input.batch_size, input.layer.in);
    out_ = MakeActivation(input.cpu, plain, input.in.needs_gradient());
    if (input.in.needs_gradient()) in_gradient_.emplace(input.cpu, input.in.gradient, plain);
  }

  void Forward(const Batch& batch, Mode mode) override {
    in_.Fetch();
    if (mode == Mode::kTrain) DrawScales(batch);
    const auto* in = static_cast<const float*>(in_.memory().get_data_handle());
    auto* out = static_cast<float*>(out_.value.get_data_handle());
    for (size_t i = 0; i < scales_.size(); ++i) {
      out[i] = mode == Mode::kTrain ? in[i] * scales_[i] : in[i];
    }
  }

  void Backward(const std::function<void()>&) override {
    if (!in_gradient_) return;
    const auto* out = static_cast<const float*>(out_.gradient.get_data_handle());
    auto* in = static_cast<float*>(in_gradient_->memory().get_data_handle());
    for (size_t i = 0; i < scales_.size(); ++i) in[i] = out[i] * scales_[i];
    in_gradient_->Store();
  }

 private:
  void DrawScales(const Batch& batch) {
    const float kept = static_cast<float>(1 / (1 - p_));
    for (int row = 0; row < batch.count; ++row) {
      uint64_t state = seed_;
      state = NextRandom(state) ^ batch.draw;
      state = NextRandom(state) ^ static_cast<uint64_t>(batch.samples[row]);
      for (int64_t i = 0; i < sample_size_; ++i) {
        scales_[row * sample_size_ + i] = UnitInterval(NextRandom(state)) < p_ ? 0.0f : kept;
      }
    }
  }

  const double p_;
  const uint64_t seed_;
  const int64_t sample_size_;
  Formatted in_;
  std::optional<Formatted> in_gradient_;
  std::vector<float> scales_;  // 0, or 1 / (1 - p), for each element
};

}  // namespace

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Relu&, const CpuLayerInput& input) {
  return std::make_unique<CpuRelu>(input);
}

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Gelu& gelu, const CpuLayerInput& input) {
  const auto form =
      gelu.exact ? dnnl::algorithm::eltwise_gelu_erf : dnnl::algorithm::eltwise_gelu_tanh;
  return std::make_unique<CpuElementwise>(input, form);
}

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Silu&, const CpuLayerInput& input) {
  return std::make_unique<CpuExponential>(input, dnnl::algorithm::eltwise_swish, 1.0f);
}

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Tanh&, const CpuLayerInput& input) {
  return std::make_unique<CpuExponential>(input, dnnl::algorithm::eltwise_tanh_use_dst_for_bwd);
}

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Sigmoid&, const CpuLayerInput& input) {
  return std::make_unique<CpuExponential>(input, dnnl::algorithm::eltwise_logistic_use_dst_for_bwd);
}

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Dropout& dropout, const CpuLayerInput& input) {
  return std::make_unique<CpuDropout>(input, dropout.p);
}

}  // namespace dp::engine
