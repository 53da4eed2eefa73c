// Convolution and linear layer: the same three primitives. Their weights live in the flat arrays in
// PyTorch's order, and are brought into oneDNN's format once per step.

#include <limits>
#include <optional>
#include <utility>

#include "worker/engine/device/cpu/cpu_layer.h"
#include "worker/engine/device/cpu/cpu_nan.h"
#include "worker/engine/device/cpu/cpu_relu_gradient.h"

namespace dp::engine {
namespace {

using dnnl::memory;

// Plain descriptions of the tensors. oneDNN chooses all formats but the bias's. All that a
// primitive writes is float32. In bf16 the factors of its products are rounded to bfloat16.
struct WeightedShapes {
  memory::desc in;
  memory::desc weight;
  memory::desc bias;  // empty: none
  memory::desc out;
  memory::data_type factors = memory::data_type::f32;

  memory::desc Factors(const memory::desc& plain) const {
    return {plain.dims(), factors, memory::format_tag::any};
  }
  memory::desc Sums(const memory::desc& plain) const {
    return {plain.dims(), memory::data_type::f32, memory::format_tag::any};
  }
};

struct ConvolutionPrimitives {
  using Forward = dnnl::convolution_forward;
  using BackwardWeights = dnnl::convolution_backward_weights;
  using BackwardData = dnnl::convolution_backward_data;

  WeightedShapes shapes;
  memory::dims strides;
  memory::dims dilates;  // places between those of the window: 0 for a dense one
  memory::dims padding;

  Forward::primitive_desc MakeForward(const dnnl::engine& engine,
                                      const dnnl::primitive_attr& attributes) const {
    return {{dnnl::prop_kind::forward_training, kAlgorithm, shapes.Factors(shapes.in),
             shapes.Factors(shapes.weight), shapes.bias, shapes.Sums(shapes.out), strides, dilates,
             padding, padding},
            attributes,
            engine};
  }
  BackwardWeights::primitive_desc MakeBackwardWeights(const dnnl::engine& engine,
                                                      const Forward::primitive_desc& hint) const {
    return {{kAlgorithm, shapes.Factors(shapes.in), shapes.Sums(shapes.weight), shapes.bias,
             shapes.Factors(shapes.out), strides, dilates, padding, padding},
            engine,
            hint};
  }
  BackwardData::primitive_desc MakeBackwardData(const dnnl::engine& engine,
                                                const Forward::primitive_desc& hint) const {
    return {{kAlgorithm, shapes.Sums(shapes.in), shapes.Factors(shapes.weight),
             shapes.Factors(shapes.out), strides, dilates, padding, padding},
            engine,
            hint};
  }

  static constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
};

struct LinearPrimitives {
  using Forward = dnnl::inner_product_forward;
  using BackwardWeights = dnnl::inner_product_backward_weights;
  using BackwardData = dnnl::inner_product_backward_data;

  WeightedShapes shapes;

  Forward::primitive_desc MakeForward(const dnnl::engine& engine,
                                      const dnnl::primitive_attr& attributes) const {
    return {{dnnl::prop_kind::forward_training, shapes.Factors(shapes.in),
             shapes.Factors(shapes.weight), shapes.bias, shapes.Sums(shapes.out)},
            attributes,
            engine};
  }
  BackwardWeights::primitive_desc MakeBackwardWeights(const dnnl::engine& engine,
                                                      const Forward::primitive_desc& hint) const {
    return {{shapes.Factors(shapes.in), shapes.Sums(shapes.weight), shapes.bias,
             shapes.Factors(shapes.out)},
            engine,
            hint};
  }
  BackwardData::primitive_desc MakeBackwardData(const dnnl::engine& engine,
                                                const Forward::primitive_desc& hint) const {
    return {{shapes.Sums(shapes.in), shapes.Factors(shapes.weight), shapes.Factors(shapes.out)},
            engine,
            hint};
  }
};

dnnl::primitive_attr WithRelu() {
  dnnl::post_ops after;
  after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(after);
  return attributes;
}

// A tensor in the flat arrays.
memory Bind(const CpuStream& cpu, const memory::desc& desc, const float* data) {
  if (data == nullptr) return memory();
  return memory(desc, cpu.engine, const_cast<float*>(data));
}

template <typename Primitives>
class CpuWeighted : public CpuLayer {
 public:
  CpuWeighted(const CpuLayerInput& input, const Primitives& primitives)
      : cpu_(input.cpu),
        parameters_(input.options.parameters),
        relu_(input.options.relu != FusedRelu::kNone),
        forward_desc_(primitives.MakeForward(cpu_.engine, dnnl::primitive_attr())),
        weights_desc_(primitives.MakeBackwardWeights(cpu_.engine, forward_desc_)),
        forward_(forward_desc_),
        backward_weights_(weights_desc_),
        bias_(Bind(cpu_, primitives.shapes.bias, parameters_.bias)),
        bias_gradient_(Bind(cpu_, primitives.shapes.bias, parameters_.bias_gradient)),
        weight_home_(Bind(cpu_, primitives.shapes.weight, parameters_.weight)),
        in_home_(input.in.value),
        in_(cpu_, input.in.value, forward_desc_.src_desc()),
        weight_(cpu_, weight_home_, forward_desc_.weights_desc()),
        in_for_weights_(cpu_, in_.memory(), weights_desc_.src_desc()),
        weight_gradient_(cpu_, Bind(cpu_, primitives.shapes.weight, parameters_.weight_gradient),
                         weights_desc_.diff_weights_desc()) {
    out_ = MakeActivation(cpu_, forward_desc_.dst_desc(), true);
    out_gradient_.emplace(cpu_, out_.gradient, weights_desc_.diff_dst_desc());
    if (relu_) FuseRelu(primitives);
    if (input.options.relu == FusedRelu::kBoth) relu_gradient_.emplace(cpu_, out_);
    if (input.in.needs_gradient()) data_.emplace(cpu_, primitives, input.in, *this);
  }

  void Forward(const Batch&, Mode) override {
    in_.Fetch();
    weight_.Fetch();
    without_nan_ = forward_with_relu_ && SumsAreFinite();
    cpu_.Run(without_nan_ ? forward_with_relu_ : forward_, {{DNNL_ARG_SRC, in_.memory()},
                                                            {DNNL_ARG_WEIGHTS, weight_.memory()},
                                                            {DNNL_ARG_BIAS, bias_},
                                                            {DNNL_ARG_DST, out_.value}});
    if (relu_ && !without_nan_) ReluOf(Values(out_.value), Values(out_.value));
  }

  void Backward(const std::function<void()>& parameters_ready) override {
    if (relu_gradient_) relu_gradient_->Run();
    in_for_weights_.Fetch();
    out_gradient_->Fetch();
    cpu_.Run(backward_weights_, {{DNNL_ARG_SRC, in_for_weights_.memory()},
                                 {DNNL_ARG_DIFF_DST, out_gradient_->memory()},
                                 {DNNL_ARG_DIFF_WEIGHTS, weight_gradient_.memory()},
                                 {DNNL_ARG_DIFF_BIAS, bias_gradient_}});
    weight_gradient_.Store();
    parameters_ready();
    if (data_) data_->Run();
  }

 private:
  // The gradient of the input; absent if no earlier layer has parameters.
  class DataGradient {
   public:
    DataGradient(CpuStream& cpu, const Primitives& primitives, const Activation& in,
                 const CpuWeighted& layer)
        : cpu_(cpu),
          desc_(primitives.MakeBackwardData(
              cpu.engine, primitives.MakeForward(cpu.engine, dnnl::primitive_attr()))),
          primitive_(desc_),
          weight_(cpu, Nearest(layer.weight_.memory(), layer.weight_home_, desc_.weights_desc()),
                  desc_.weights_desc()),
          out_gradient_(
              cpu,
              Nearest(layer.out_gradient_->memory(), layer.out_.gradient, desc_.diff_dst_desc()),
              desc_.diff_dst_desc()),
          in_gradient_(cpu, in.gradient, desc_.diff_src_desc()) {}

    void Run() {
      weight_.Fetch();
      out_gradient_.Fetch();
      cpu_.Run(primitive_, {{DNNL_ARG_WEIGHTS, weight_.memory()},
                            {DNNL_ARG_DIFF_DST, out_gradient_.memory()},
                            {DNNL_ARG_DIFF_SRC, in_gradient_.memory()}});
      in_gradient_.Store();
    }

   private:
    // A copy that another primitive has made in this step, if it has the wanted format.
    static memory Nearest(const memory& copy, const memory& home, const memory::desc& wanted) {
      return copy.get_desc() == wanted ? copy : home;
    }

    CpuStream& cpu_;
    typename Primitives::BackwardData::primitive_desc desc_;
    typename Primitives::BackwardData primitive_;
    Formatted weight_;
    Formatted out_gradient_;
    Formatted in_gradient_;
  };

  // oneDNN's ReLU drops NaN, but saves a pass over the output. It is used where a look at the input
  // and the weight, which shows that there is no NaN, is less than that pass.
  void FuseRelu(const Primitives& primitives) {
    if (Values(in_home_).size() + Values(weight_home_).size() >= Values(out_.value).size()) {
      return;
    }
    const auto desc = primitives.MakeForward(cpu_.engine, WithRelu());
    if (desc.src_desc() != forward_desc_.src_desc() ||
        desc.weights_desc() != forward_desc_.weights_desc() ||
        desc.dst_desc() != forward_desc_.dst_desc()) {
      return;
    }
    forward_with_relu_ = typename Primitives::Forward(desc);
    out_.without_nan = &without_nan_;
  }

  // Whether no sum of products, nor a part of it, can be infinite or NaN.
  bool SumsAreFinite() const {
    const memory::dims weight = weight_home_.get_desc().dims();
    const auto products = static_cast<double>(Values(weight_home_).size()) / weight[0];
    const double bias = bias_ ? LargestMagnitude(Values(bias_)) : 0.0;
    const double bound =
        products * LargestMagnitude(Values(in_home_)) * LargestMagnitude(Values(weight_home_)) +
        bias;
    return bound < std::numeric_limits<float>::max() / 2;  // half: sums are rounded
  }

  CpuStream& cpu_;
  const ParameterViews parameters_;
  const bool relu_;
  bool without_nan_ = false;
  typename Primitives::Forward::primitive_desc forward_desc_;
  typename Primitives::BackwardWeights::primitive_desc weights_desc_;
  typename Primitives::Forward forward_;
  typename Primitives::Forward forward_with_relu_;  // empty: the ReLU is a pass after forward_
  typename Primitives::BackwardWeights backward_weights_;
  memory bias_;
  memory bias_gradient_;
  memory weight_home_;
  memory in_home_;
  Formatted in_;
  Formatted weight_;
  Formatted in_for_weights_;
  Formatted weight_gradient_;
  std::optional<Formatted> out_gradient_;
  std::optional<ReluGradient> relu_gradient_;
  std::optional<DataGradient> data_;
};

memory::desc BiasDesc(bool bias, int64_t size) {
  if (!bias) return memory::desc();
  return {{size}, memory::data_type::f32, memory::format_tag::x};
}

memory::data_type FactorsOf(const CpuLayerInput& input) {
  return input.options.bfloat16 ? memory::data_type::bf16 : memory::data_type::f32;
}

std::unique_ptr<CpuLayer> MakeProduct(bool with_bias, const CpuLayerInput& input) {
  const int64_t out = input.layer.out.back();
  const LinearPrimitives primitives{
      .shapes = {
          .in = PlainDesc(input.batch_size, input.layer.in),
          .weight = {{out, input.layer.in.back()}, memory::data_type::f32, memory::format_tag::oi},
          .bias = BiasDesc(with_bias, out),
          .out = PlainDesc(input.batch_size, input.layer.out),
          .factors = FactorsOf(input)}};
  return std::make_unique<CpuWeighted<LinearPrimitives>>(input, primitives);
}

// `extents`: of the window along each axis of places.
template <typename Convolution>
memory::desc WeightDesc(const Convolution& conv, const memory::dims& extents) {
  memory::dims dims = {conv.out / conv.groups, conv.in / conv.groups};
  dims.insert(dims.end(), extents.begin(), extents.end());
  if (conv.groups > 1) dims.insert(dims.begin(), conv.groups);
  constexpr memory::format_tag kPlain[] = {memory::format_tag::abc, memory::format_tag::abcd,
                                           memory::format_tag::abcde};
  return {dims, memory::data_type::f32, kPlain[dims.size() - 3]};
}

template <typename Convolution>
ConvolutionPrimitives PrimitivesOf(const Convolution& conv, const CpuLayerInput& input,
                                   const memory::desc& in, const memory::desc& out) {
  const size_t axes = in.dims().size() - 2;
  const auto same = [&](int value) { return memory::dims(axes, value); };
  return {.shapes = {.in = in,
                     .weight = WeightDesc(conv, same(conv.kernel)),
                     .bias = BiasDesc(conv.bias, conv.out),
                     .out = out,
                     .factors = FactorsOf(input)},
          .strides = same(conv.stride),
          .dilates = same(conv.dilation - 1),
          .padding = same(conv.padding)};
}

// Channels x places in plain order, as the layers around see them: a row for each channel.
memory::desc PlacesDesc(int batch_size, const model::Shape& shape) {
  return {{batch_size, shape[0], shape[1]}, memory::data_type::f32, memory::format_tag::abc};
}

// The same elements under another description.
memory Viewed(const CpuStream& cpu, const memory& as, const memory::desc& desc) {
  return as ? memory(desc, cpu.engine, as.get_data_handle()) : memory();
}

// A convolution along one axis, between layers to which each channel is a row.
class CpuConv1d : public CpuLayer {
 public:
  CpuConv1d(const CpuLayerInput& input, const model::Conv1d& conv)
      : in_(input.cpu, input.in, PlainDesc(input.batch_size, input.layer.in)),
        places_(ViewedInput(input)),
        convolution_({input.cpu, input.layer, input.batch_size, places_, input.options},
                     PrimitivesOf(conv, input, PlacesDesc(input.batch_size, input.layer.in),
                                  PlacesDesc(input.batch_size, input.layer.out))),
        given_(input.cpu, convolution_.out(), PlacesDesc(input.batch_size, input.layer.out)) {
    const memory::desc rows = PlainDesc(input.batch_size, input.layer.out);
    out_.value = Viewed(input.cpu, given_.memory(), rows);
    out_.gradient = Viewed(input.cpu, given_.gradient_memory(), rows);
  }

  void Forward(const Batch& batch, Mode mode) override {
    in_.Fetch();
    convolution_.Forward(batch, mode);
    given_.Fetch();
  }

  void Backward(const std::function<void()>& parameters_ready) override {
    given_.Store();
    convolution_.Backward(parameters_ready);
    in_.Store();
  }

 private:
  Activation ViewedInput(const CpuLayerInput& input) const {
    const memory::desc places = PlacesDesc(input.batch_size, input.layer.in);
    return {.value = Viewed(input.cpu, in_.memory(), places),
            .gradient = Viewed(input.cpu, in_.gradient_memory(), places)};
  }

  FormattedInput in_;
  const Activation places_;  // in_ under the convolution's description
  CpuWeighted<ConvolutionPrimitives> convolution_;
  FormattedInput given_;  // the convolution's output
};

}  // namespace

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Conv2d& conv, const CpuLayerInput& input) {
  return std::make_unique<CpuWeighted<ConvolutionPrimitives>>(
      input, PrimitivesOf(conv, input, PlainDesc(input.batch_size, input.layer.in),
                          PlainDesc(input.batch_size, input.layer.out)));
}

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Conv1d& conv, const CpuLayerInput& input) {
  return std::make_unique<CpuConv1d>(input, conv);
}

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Linear& linear, const CpuLayerInput& input) {
  return MakeProduct(linear.bias, input);
}

// The weight is the embedding's.
std::unique_ptr<CpuLayer> MakeCpuLayer(const model::TiedLinear&, const CpuLayerInput& input) {
  return MakeProduct(/*with_bias=*/false, input);
}

}  // namespace dp::engine
