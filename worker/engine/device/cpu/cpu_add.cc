#include <algorithm>

#include "worker/engine/device/cpu/cpu_layer.h"

namespace dp::engine {
namespace {

class CpuPlainAdd : public CpuAdd {
 public:
  CpuPlainAdd(const CpuLayerInput& input, const Activation& source)
      : size_(input.batch_size * model::ElementCount(input.layer.in)),
        in_(input.cpu, input.in, PlainDesc(input.batch_size, input.layer.in)),
        source_(input.cpu, source, PlainDesc(input.batch_size, input.layer.in)) {
    out_ = MakeActivation(input.cpu, PlainDesc(input.batch_size, input.layer.out),
                          input.in.needs_gradient() || source.needs_gradient());
  }

  void Forward(const Batch&, Mode) override {
    const float* in = in_.Fetch();
    const float* source = source_.Fetch();
    float* out = Floats(out_.value);
    for (int64_t i = 0; i < size_; ++i) out[i] = in[i] + source[i];
  }

  void Backward(const std::function<void()>&) override {
    if (in_.gradient() == nullptr) return;
    std::copy_n(Floats(out_.gradient), size_, in_.gradient());
    in_.Store();
  }

  void AddToSource() override {
    float* source = source_.FetchGradient();
    if (source == nullptr) return;
    const float* out = Floats(out_.gradient);
    for (int64_t i = 0; i < size_; ++i) source[i] += out[i];
    source_.Store();
  }

 private:
  const int64_t size_;
  PlainInput in_;
  PlainInput source_;
};

}  // namespace

std::unique_ptr<CpuAdd> MakeCpuAdd(const CpuLayerInput& input, const Activation& source) {
  return std::make_unique<CpuPlainAdd>(input, source);
}

}  // namespace dp::engine
