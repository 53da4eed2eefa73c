#include <algorithm>
#include <optional>

#include "worker/engine/device/cpu/cpu_layer.h"
#include "worker/engine/device/cpu/cpu_nan.h"
#include "worker/engine/device/cpu/cpu_relu_gradient.h"

namespace dp::engine {
namespace {

// Works in the format of the input. Both arguments and the sum have the same elements, so a plain
// loop over memory serves any format.
class CpuPlainAdd : public CpuAdd {
 public:
  CpuPlainAdd(const CpuLayerInput& input, const Activation& source)
      : in_(input.in), source_(input.cpu, source, in_.value.get_desc()) {
    out_ = MakeActivation(input.cpu, in_.value.get_desc(),
                          in_.needs_gradient() || source.needs_gradient());
    if (input.options.relu == FusedRelu::kNone) return;
    relu_ = true;
    if (out_.needs_gradient()) relu_gradient_.emplace(input.cpu, out_);
  }

  void Forward(const Batch&, Mode) override {
    const float* in = Floats(in_.value);
    const float* source = source_.Fetch();
    const absl::Span<float> out = Values(out_.value);
    if (relu_) return ReluOfSum(in, source, out);
    for (size_t i = 0; i < out.size(); ++i) out[i] = in[i] + source[i];
  }

  void Backward(const std::function<void()>&) override {
    if (relu_gradient_) relu_gradient_->Run();
    if (!in_.needs_gradient()) return;
    const absl::Span<const float> out = Values(out_.gradient);
    std::copy(out.begin(), out.end(), Floats(in_.gradient));
  }

  void PassToSource(bool first) override {
    float* source = first ? source_.gradient() : source_.FetchGradient();
    if (source == nullptr) return;
    const absl::Span<const float> out = Values(out_.gradient);
    if (first) {
      std::copy(out.begin(), out.end(), source);
    } else {
      for (size_t i = 0; i < out.size(); ++i) source[i] += out[i];
    }
    source_.Store();
  }

 private:
  const Activation in_;
  FormattedInput source_;  // in the format of in_
  bool relu_ = false;
  std::optional<ReluGradient> relu_gradient_;
};

}  // namespace

std::unique_ptr<CpuAdd> MakeCpuAdd(const CpuLayerInput& input, const Activation& source) {
  return std::make_unique<CpuPlainAdd>(input, source);
}

}  // namespace dp::engine
