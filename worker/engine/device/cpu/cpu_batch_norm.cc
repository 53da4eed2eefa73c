#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "worker/engine/device/cpu/cpu_layer.h"
#include "worker/engine/device/cpu/cpu_nan.h"
#include "worker/engine/device/cpu/cpu_relu_gradient.h"

namespace dp::engine {
namespace {

using dnnl::memory;
using dnnl::normalization_flags;

// oneDNN sums up in float32. This is a visible error in a sum of few values that nearly cancel.
// Batches of no more values than these are summed up in float64, which takes some 10 us.
constexpr int64_t kFloat64Values = 8192;

const auto kWeights = normalization_flags::use_scale | normalization_flags::use_shift;

// The memory and settings that one batch norm's primitives share.
struct BatchNormParts {
  CpuStream& cpu;
  float epsilon;
  bool relu;
  memory in;
  memory in_gradient;
  memory out;
  memory out_gradient;
  memory weight;
  memory bias;
  memory weight_gradient;
  memory bias_gradient;
};

// The first `rows` samples of a batch, in any format that keeps samples apart.
memory FirstRows(const CpuStream& cpu, const memory& batch, int64_t rows) {
  memory::dims dims = batch.get_desc().dims();
  dims[0] = rows;
  const memory::desc desc = batch.get_desc().submemory_desc(dims, memory::dims(dims.size(), 0));
  return memory(desc, cpu.engine, batch.get_data_handle());
}

// Training on batches of one number of samples. Padding must not count in mean and variance, so a
// short batch has primitives of its own.
class BatchNormOfCount {
 public:
  BatchNormOfCount(const BatchNormParts& parts, int64_t count)
      : cpu_(parts.cpu),
        in_(FirstRows(cpu_, parts.in, count)),
        in_gradient_(FirstRows(cpu_, parts.in_gradient, count)),
        out_(FirstRows(cpu_, parts.out, count)),
        out_gradient_(FirstRows(cpu_, parts.out_gradient, count)),
        forward_desc_(ForwardDesc(parts)),
        forward_(forward_desc_),
        backward_(dnnl::batch_normalization_backward::primitive_desc(
            {dnnl::prop_kind::backward, in_gradient_.get_desc(), in_.get_desc(), parts.epsilon,
             FlagsOf(parts)},
            cpu_.engine, forward_desc_)),
        mean_(forward_desc_.mean_desc(), cpu_.engine),
        variance_(forward_desc_.variance_desc(), cpu_.engine),
        workspace_(forward_desc_.workspace_desc(), cpu_.engine),
        weights_({{DNNL_ARG_SCALE, parts.weight}, {DNNL_ARG_SHIFT, parts.bias}}),
        weight_gradients_({{DNNL_ARG_DIFF_SCALE, parts.weight_gradient},
                           {DNNL_ARG_DIFF_SHIFT, parts.bias_gradient}}) {}

  void Forward() { Run(forward_, {{DNNL_ARG_DST, out_}}, weights_); }
  void Backward() {
    Run(backward_, {{DNNL_ARG_DIFF_DST, out_gradient_}, {DNNL_ARG_DIFF_SRC, in_gradient_}},
        weights_, weight_gradients_);
  }

  absl::Span<const float> mean() const { return Values(mean_); }
  absl::Span<const float> variance() const { return Values(variance_); }

 private:
  using Arguments = std::unordered_map<int, memory>;

  static normalization_flags FlagsOf(const BatchNormParts& parts) {
    return parts.relu ? kWeights | normalization_flags::fuse_norm_relu : kWeights;
  }
  dnnl::batch_normalization_forward::primitive_desc ForwardDesc(const BatchNormParts& parts) const {
    return {{dnnl::prop_kind::forward_training, in_.get_desc(), parts.epsilon, FlagsOf(parts)},
            cpu_.engine};
  }

  template <typename... More>
  void Run(const dnnl::primitive& primitive, Arguments arguments, const More&... more) {
    arguments.insert({{DNNL_ARG_SRC, in_},
                      {DNNL_ARG_MEAN, mean_},
                      {DNNL_ARG_VARIANCE, variance_},
                      {DNNL_ARG_WORKSPACE, workspace_}});
    (arguments.insert(more.begin(), more.end()), ...);
    cpu_.Run(primitive, arguments);
  }

  CpuStream& cpu_;
  const memory in_;
  const memory in_gradient_;
  const memory out_;
  const memory out_gradient_;
  const dnnl::batch_normalization_forward::primitive_desc forward_desc_;
  const dnnl::batch_normalization_forward forward_;
  const dnnl::batch_normalization_backward backward_;
  const memory mean_;
  const memory variance_;
  const memory workspace_;
  const Arguments weights_;
  const Arguments weight_gradients_;
};

// (x - mean) / sqrt(variance + epsilon) w + b for each channel, and the ReLU behind it.
class CpuBatchNorm : public CpuLayer {
 public:
  CpuBatchNorm(const CpuLayerInput& input, const model::BatchNorm& norm)
      : views_(input.options.parameters),
        batch_size_(input.batch_size),
        channels_(input.layer.in.front()),
        places_(model::ElementCount(input.layer.in) / channels_),
        in_(input.cpu, input.in, FormatOf(input)),
        parts_(MakeParts(input, norm)),
        evaluate_(EvaluateDesc()) {
    const memory::desc rows = input.layer.in.size() == 3 ? parts_.out.get_desc()
                                                         : PlainDesc(batch_size_, input.layer.out);
    out_ = {.value = memory(rows, parts_.cpu.engine, parts_.out.get_data_handle()),
            .gradient = memory(rows, parts_.cpu.engine, parts_.out_gradient.get_data_handle())};
    of_count_[batch_size_] = std::make_unique<BatchNormOfCount>(parts_, batch_size_);
  }

  void Forward(const Batch& batch, Mode mode) override {
    in_.Fetch();
    if (mode == Mode::kEvaluate) return Evaluate();
    count_ = batch.count;
    ZeroPadding(parts_.out);
    if (count_ == 0) return;
    std::unique_ptr<BatchNormOfCount>& now = of_count_[count_];
    if (now == nullptr) now = std::make_unique<BatchNormOfCount>(parts_, count_);
    now->Forward();
    // oneDNN's ReLU drops NaN, which is in the mean then.
    const float largest =
        std::max(LargestMagnitude(now->mean()), LargestMagnitude(now->variance()));
    if (parts_.relu && !std::isfinite(largest)) {
      std::fill_n(Floats(parts_.out), count_ * SampleSize(parts_.out),
                  std::numeric_limits<float>::quiet_NaN());
    }
  }

  void Backward(const std::function<void()>& parameters_ready) override {
    ZeroPadding(parts_.in_gradient);
    if (count_ == 0) {
      for (float* gradient : {views_.weight_gradient, views_.bias_gradient, views_.measured_mean,
                              views_.measured_variance}) {
        std::fill_n(gradient, channels_, 0.0f);
      }
    } else {
      of_count_.at(count_)->Backward();
      Measure(*of_count_.at(count_));
    }
    parameters_ready();
    in_.Store();
  }

 private:
  // Images keep their format. To the layers around, each channel of a sequence is a row.
  static memory::desc FormatOf(const CpuLayerInput& input) {
    if (input.layer.in.size() == 3) return input.in.value.get_desc();
    return PlainDesc(input.batch_size, input.layer.in);
  }

  BatchNormParts MakeParts(const CpuLayerInput& input, const model::BatchNorm& norm) const {
    const CpuStream& cpu = input.cpu;
    memory::desc desc = FormatOf(input);
    if (input.layer.in.size() != 1 && input.layer.in.size() != 3) {
      desc = {{batch_size_, channels_, places_}, memory::data_type::f32, memory::format_tag::abc};
    }
    const auto bind = [&](const float* values) {
      return memory({{channels_}, memory::data_type::f32, memory::format_tag::x}, cpu.engine,
                    const_cast<float*>(values));
    };
    const memory gradient = in_.gradient_memory();
    return {.cpu = input.cpu,
            .epsilon = static_cast<float>(norm.epsilon),
            .relu = input.options.relu != FusedRelu::kNone,
            .in = memory(desc, cpu.engine, in_.memory().get_data_handle()),
            // oneDNN always computes this gradient; if no layer needs it, it is discarded.
            .in_gradient = gradient ? memory(desc, cpu.engine, gradient.get_data_handle())
                                    : memory(desc, cpu.engine),
            .out = memory(desc, cpu.engine),
            .out_gradient = memory(desc, cpu.engine),
            .weight = bind(views_.weight),
            .bias = bind(views_.bias),
            .weight_gradient = bind(views_.weight_gradient),
            .bias_gradient = bind(views_.bias_gradient)};
  }

  dnnl::batch_normalization_forward::primitive_desc EvaluateDesc() const {
    return {{dnnl::prop_kind::forward_inference, parts_.in.get_desc(), parts_.epsilon,
             kWeights | normalization_flags::use_global_stats},
            parts_.cpu.engine};
  }

  void Evaluate() {
    const memory::desc channels = parts_.weight.get_desc();
    const auto bind = [&](const float* values) {
      return memory(channels, parts_.cpu.engine, const_cast<float*>(values));
    };
    parts_.cpu.Run(evaluate_, {{DNNL_ARG_SRC, parts_.in},
                               {DNNL_ARG_SCALE, parts_.weight},
                               {DNNL_ARG_SHIFT, parts_.bias},
                               {DNNL_ARG_MEAN, bind(views_.running_mean)},
                               {DNNL_ARG_VARIANCE, bind(views_.running_variance)},
                               {DNNL_ARG_DST, parts_.out}});
    if (parts_.relu) ReluOf(Values(parts_.out), Values(parts_.out));
  }

  int64_t SampleSize(const memory& of) const {
    return static_cast<int64_t>(Values(of).size()) / batch_size_;
  }
  void ZeroPadding(const memory& of) const {
    const int64_t known = count_ * SampleSize(of);
    const absl::Span<float> values = Values(of);
    std::fill(values.begin() + known, values.end(), 0.0f);
  }

  // The unbiased variance, as PyTorch averages it. A single value has none, and counts as 0.
  void Measure(const BatchNormOfCount& now) const {
    const auto values = static_cast<double>(count_ * places_);
    const auto unbiased = static_cast<float>(values > 1 ? values / (values - 1) : 1);
    for (int64_t i = 0; i < channels_; ++i) {
      views_.measured_mean[i] = now.mean()[i];
      views_.measured_variance[i] = now.variance()[i] * unbiased;
    }
  }

  const ParameterViews views_;
  const int64_t batch_size_;
  const int64_t channels_;
  const int64_t places_;  // of a channel
  FormattedInput in_;
  const BatchNormParts parts_;
  const dnnl::batch_normalization_forward evaluate_;
  std::map<int64_t, std::unique_ptr<BatchNormOfCount>> of_count_;
  int64_t count_ = 0;  // of the last Forward in training
};

}  // namespace

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::BatchNorm& norm, const CpuLayerInput& input) {
  const bool exchanges = norm.sync && input.options.exchange.ranks > 1;
  if (exchanges || input.batch_size * model::ElementCount(input.layer.in) <= kFloat64Values) {
    return MakeCpuFloat64BatchNorm(norm, input);
  }
  return std::make_unique<CpuBatchNorm>(input, norm);
}

}  // namespace dp::engine
