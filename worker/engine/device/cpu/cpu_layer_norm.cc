#include "worker/engine/device/cpu/cpu_layer.h"

namespace dp::engine {
namespace {

using dnnl::memory;

// torch.nn.LayerNorm's default.
constexpr float kEpsilon = 1e-5f;

// Normalizes over the features of each row.
class CpuLayerNorm : public CpuLayer {
 public:
  CpuLayerNorm(const CpuLayerInput& input, const ParameterViews& views)
      : cpu_(input.cpu),
        plain_(PlainDesc(input.batch_size, input.layer.in)),
        desc_(ForwardDesc()),
        forward_(desc_),
        backward_(BackwardDesc()),
        mean_(desc_.mean_desc(), cpu_.engine),
        variance_(desc_.variance_desc(), cpu_.engine),
        weight_(Bind(views.weight)),
        bias_(Bind(views.bias)),
        weight_gradient_(Bind(views.weight_gradient)),
        bias_gradient_(Bind(views.bias_gradient)),
        in_(cpu_, input.in.value, plain_),
        // oneDNN always computes this gradient; if no layer needs it, it is discarded.
        in_gradient_(cpu_,
                     input.in.needs_gradient() ? input.in.gradient : memory(plain_, cpu_.engine),
                     plain_) {
    out_ = MakeActivation(cpu_, plain_, true);
  }

  void Forward(const Batch&, Mode) override {
    in_.Fetch();
    cpu_.Run(forward_, {{DNNL_ARG_SRC, in_.memory()},
                        {DNNL_ARG_SCALE, weight_},
                        {DNNL_ARG_SHIFT, bias_},
                        {DNNL_ARG_MEAN, mean_},
                        {DNNL_ARG_VARIANCE, variance_},
                        {DNNL_ARG_DST, out_.value}});
  }

  void Backward(const std::function<void()>& parameters_ready) override {
    cpu_.Run(backward_, {{DNNL_ARG_SRC, in_.memory()},
                         {DNNL_ARG_SCALE, weight_},
                         {DNNL_ARG_SHIFT, bias_},
                         {DNNL_ARG_MEAN, mean_},
                         {DNNL_ARG_VARIANCE, variance_},
                         {DNNL_ARG_DIFF_DST, out_.gradient},
                         {DNNL_ARG_DIFF_SRC, in_gradient_.memory()},
                         {DNNL_ARG_DIFF_SCALE, weight_gradient_},
                         {DNNL_ARG_DIFF_SHIFT, bias_gradient_}});
    parameters_ready();
    in_gradient_.Store();
  }

 private:
  static inline const auto kFlags =
      dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;

  dnnl::layer_normalization_forward::primitive_desc ForwardDesc() const {
    return {{dnnl::prop_kind::forward_training, plain_, kEpsilon, kFlags}, cpu_.engine};
  }
  dnnl::layer_normalization_backward::primitive_desc BackwardDesc() const {
    return {{dnnl::prop_kind::backward, plain_, plain_, kEpsilon, kFlags}, cpu_.engine, desc_};
  }
  memory Bind(const float* values) const {
    const memory::desc desc({plain_.dims()[1]}, memory::data_type::f32, memory::format_tag::x);
    return memory(desc, cpu_.engine, const_cast<float*>(values));
  }

  CpuStream& cpu_;
  const memory::desc plain_;
  dnnl::layer_normalization_forward::primitive_desc desc_;
  dnnl::layer_normalization_forward forward_;
  dnnl::layer_normalization_backward backward_;
  memory mean_;
  memory variance_;
  memory weight_;
  memory bias_;
  memory weight_gradient_;
  memory bias_gradient_;
  Formatted in_;
  Formatted in_gradient_;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::LayerNorm&, const CpuLayerInput& input) {
  return std::make_unique<CpuLayerNorm>(input, input.options.parameters);
}

}  // namespace dp::engine
