// Pooling: the maximum or the mean of each window of an image.

#include <cmath>
#include <optional>
#include <vector>

#include "base/model/pool_axis.h"
#include "worker/engine/device/cpu/cpu_layer.h"
#include "worker/engine/device/cpu/cpu_nan.h"
#include "worker/engine/device/cpu/cpu_relu_gradient.h"

namespace dp::engine {
namespace {

using dnnl::memory;

// Windows as oneDNN takes them, along rows and columns.
struct PoolShape {
  dnnl::algorithm algorithm;
  memory::dims strides;
  memory::dims kernel;
  memory::dims padding;
};

// oneDNN's pooling, in the format of the input.
class CpuPool : public CpuLayer {
 public:
  CpuPool(const CpuLayerInput& input, const PoolShape& shape)
      : cpu_(input.cpu), shape_(shape), in_(input.in), desc_(ForwardDesc(input)), forward_(desc_) {
    out_ = MakeActivation(cpu_, desc_.dst_desc(), in_.needs_gradient());
    workspace_ = memory(desc_.workspace_desc(), cpu_.engine);
    if (in_.needs_gradient()) backward_ = dnnl::pooling_backward(BackwardDesc());
  }

  void Forward(const Batch&, Mode) override {
    cpu_.Run(
        forward_,
        {{DNNL_ARG_SRC, in_.value}, {DNNL_ARG_DST, out_.value}, {DNNL_ARG_WORKSPACE, workspace_}});
  }

  void Backward(const std::function<void()>&) override {
    if (!in_.needs_gradient()) return;
    cpu_.Run(backward_, {{DNNL_ARG_DIFF_DST, out_.gradient},
                         {DNNL_ARG_WORKSPACE, workspace_},
                         {DNNL_ARG_DIFF_SRC, in_.gradient}});
  }

 protected:
  CpuStream& cpu() const { return cpu_; }
  const Activation& in() const { return in_; }

 private:
  dnnl::pooling_forward::primitive_desc ForwardDesc(const CpuLayerInput& input) const {
    const memory::desc out(PlainDesc(input.batch_size, input.layer.out).dims(),
                           memory::data_type::f32, memory::format_tag::any);
    return {{dnnl::prop_kind::forward_training, shape_.algorithm, input.in.value.get_desc(), out,
             shape_.strides, shape_.kernel, shape_.padding, shape_.padding},
            input.cpu.engine};
  }
  dnnl::pooling_backward::primitive_desc BackwardDesc() const {
    return {{shape_.algorithm, in_.value.get_desc(), out_.value.get_desc(), shape_.strides,
             shape_.kernel, shape_.padding, shape_.padding},
            cpu_.engine,
            desc_};
  }

  CpuStream& cpu_;
  const PoolShape shape_;
  const Activation in_;
  dnnl::pooling_forward::primitive_desc desc_;
  dnnl::pooling_forward forward_;
  dnnl::pooling_backward backward_;
  memory workspace_;  // which element of each window was the largest
};

template <typename Pool>
PoolShape SquareShape(dnnl::algorithm algorithm, const Pool& pool) {
  const auto both = [](int value) { return memory::dims(2, value); };
  return {algorithm, both(pool.stride), both(pool.kernel), both(pool.padding)};
}

class CpuMaxPool2d : public CpuPool {
 public:
  CpuMaxPool2d(const CpuLayerInput& input, const model::MaxPool2d& pool)
      : CpuPool(input, SquareShape(dnnl::algorithm::pooling_max, pool)),
        windows_{pool.kernel, pool.stride, pool.padding} {
    if (input.options.pooled_relu) relu_gradient_.emplace(cpu(), out_);
  }

  void Forward(const Batch& batch, Mode mode) override {
    CpuPool::Forward(batch, mode);
    if (MayHaveNan()) PassNanOfWindows(in().value, windows_, out_.value);
  }

  void Backward(const std::function<void()>& parameters_ready) override {
    if (relu_gradient_) relu_gradient_->Run();
    CpuPool::Backward(parameters_ready);
  }

 private:
  bool MayHaveNan() const {
    if (in().without_nan != nullptr) return !*in().without_nan;
    return std::isnan(LargestMagnitude(Values(in().value)));
  }

  const PoolWindows windows_;
  std::optional<ReluGradient> relu_gradient_;
};

// Means over windows of unequal extents.
class CpuUnevenPool : public CpuLayer {
 public:
  explicit CpuUnevenPool(const CpuLayerInput& input)
      : images_(input.batch_size * input.layer.in[0]),
        rows_{.in = input.layer.in[1], .out = input.layer.out[1]},
        columns_{.in = input.layer.in[2], .out = input.layer.out[2]},
        in_(input.cpu, input.in, PlainDesc(input.batch_size, input.layer.in)) {
    out_ = MakeActivation(input.cpu, PlainDesc(input.batch_size, input.layer.out),
                          input.in.needs_gradient());
  }

  void Forward(const Batch&, Mode) override {
    const float* in = in_.Fetch();
    float* out = Floats(out_.value);
    ForEachWindow([&](int64_t image, int64_t row, int64_t column) {
      float sum = 0;
      for (int64_t y = rows_.Begin(row); y < rows_.End(row); ++y) {
        for (int64_t x = columns_.Begin(column); x < columns_.End(column); ++x) {
          sum += in[Place(image, y, x)];
        }
      }
      *out++ = sum / Size(row, column);
    });
  }

  void Backward(const std::function<void()>&) override {
    float* in = in_.gradient();
    if (in == nullptr) return;
    std::fill_n(in, images_ * rows_.in * columns_.in, 0.0f);
    const float* out = Floats(out_.gradient);
    ForEachWindow([&](int64_t image, int64_t row, int64_t column) {
      const float part = *out++ / Size(row, column);
      for (int64_t y = rows_.Begin(row); y < rows_.End(row); ++y) {
        for (int64_t x = columns_.Begin(column); x < columns_.End(column); ++x) {
          in[Place(image, y, x)] += part;
        }
      }
    });
    in_.Store();
  }

 private:
  // In the order of the output.
  template <typename Run>
  void ForEachWindow(const Run& run) const {
    for (int64_t i = 0; i < images_ * rows_.out * columns_.out; ++i) {
      run(i / (rows_.out * columns_.out), i / columns_.out % rows_.out, i % columns_.out);
    }
  }
  int64_t Place(int64_t image, int64_t y, int64_t x) const {
    return (image * rows_.in + y) * columns_.in + x;
  }
  float Size(int64_t row, int64_t column) const {
    return static_cast<float>(rows_.Extent(row) * columns_.Extent(column));
  }

  const int64_t images_;  // samples times channels
  const model::PoolAxis rows_;
  const model::PoolAxis columns_;
  FormattedInput in_;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::MaxPool2d& pool, const CpuLayerInput& input) {
  return std::make_unique<CpuMaxPool2d>(input, pool);
}

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::AvgPool2d& pool, const CpuLayerInput& input) {
  return std::make_unique<CpuPool>(input,
                                   SquareShape(dnnl::algorithm::pooling_avg_include_padding, pool));
}

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::AdaptiveAvgPool2d& pool,
                                       const CpuLayerInput& input) {
  const model::Shape& in = input.layer.in;
  if (in[1] % pool.rows != 0 || in[2] % pool.columns != 0) {
    return std::make_unique<CpuUnevenPool>(input);
  }
  const memory::dims window = {in[1] / pool.rows, in[2] / pool.columns};
  return std::make_unique<CpuPool>(
      input, PoolShape{dnnl::algorithm::pooling_avg_exclude_padding, window, window, {0, 0}});
}

}  // namespace dp::engine
