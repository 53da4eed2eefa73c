// Layers that a user's library computes, over plain arrays.

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/model/plugin_layer.h"
#include "worker/engine/device/cpu/cpu_layer.h"
#include "worker/engine/device/cpu/cpu_nan.h"

// A function of the OpenMP runtime that oneDNN links, as in cpu_device.cc.
extern "C" int omp_get_max_threads();

namespace dp::engine {
namespace {

bool IsFinite(const float* values, int64_t size) {
  return std::isfinite(LargestMagnitude({values, static_cast<size_t>(size)}));
}

bool HasNan(const float* values, int64_t size) {
  return std::any_of(values, values + size, [](float value) { return std::isnan(value); });
}

// The rows behind a batch's samples are zeros, in the output and in the gradient of the input. The
// plug-in never sees them.
class CpuPlugin : public CpuLayer {
 public:
  CpuPlugin(const CpuLayerInput& input, std::unique_ptr<model::PluginLayer> layer)
      : cpu_(input.cpu),
        name_(NameOf(input.layer)),
        views_(input.options.parameters),
        parameters_(layer->parameters()),
        in_size_(model::ElementCount(input.layer.in)),
        out_size_(model::ElementCount(input.layer.out)),
        batch_size_(input.batch_size),
        layer_(std::move(layer)),
        in_(input.cpu, input.in, PlainDesc(input.batch_size, input.layer.in)) {
    out_ = MakeActivation(input.cpu, PlainDesc(input.batch_size, input.layer.out),
                          input.in.needs_gradient() || !parameters_.empty());
  }

  static std::string NameOf(const model::CheckedLayer& layer) {
    const auto& plugin = std::get<model::Plugin>(layer.kind);
    return absl::StrCat("layer '", layer.name, "' (plugin",
                        plugin.layer.empty() ? "" : absl::StrCat(" '", plugin.layer, "'"), " of ",
                        plugin.library, ")");
  }

  void Forward(const Batch& batch, Mode mode) override {
    samples_ = batch.count;
    in_values_ = in_.Fetch();
    float* const out = Floats(out_.value);
    std::fill(out + samples_ * out_size_, out + batch_size_ * out_size_, 0.0f);
    if (!cpu_.failure.ok()) return;
    Note("forward", layer_->Forward({.samples = samples_,
                                     .training = mode == Mode::kTrain ? 1 : 0,
                                     .input = in_values_,
                                     .output = out,
                                     .parameters = views_.plugin.data(),
                                     .draw = batch.draw,
                                     .numbers = batch.samples.data()}));
    if (HasNan(out, samples_ * out_size_)) BlameForNan("forward", "output", in_values_, in_size_);
  }

  void Backward(const std::function<void()>& parameters_ready) override {
    float* const in_gradient = in_.gradient();
    if (in_gradient != nullptr) {
      std::fill(in_gradient + samples_ * in_size_, in_gradient + batch_size_ * in_size_, 0.0f);
    }
    if (out_.needs_gradient() && cpu_.failure.ok()) PassBack(in_gradient);
    if (!parameters_.empty()) parameters_ready();
    in_.Store();
  }

 private:
  void PassBack(float* in_gradient) {
    const float* const out_gradient = Floats(out_.gradient);
    Note("backward", layer_->Backward({.samples = samples_,
                                       .input = in_values_,
                                       .output = Floats(out_.value),
                                       .output_gradient = out_gradient,
                                       .input_gradient = in_gradient,
                                       .parameters = views_.plugin.data(),
                                       .gradients = views_.plugin_gradients.data()}));
    bool nan = in_gradient != nullptr && HasNan(in_gradient, samples_ * in_size_);
    for (size_t i = 0; i < parameters_.size(); ++i) {
      nan = nan || HasNan(views_.plugin_gradients[i], SizeOf(i));
    }
    if (nan && IsFinite(in_values_, samples_ * in_size_)) {
      BlameForNan("backward", "gradients", out_gradient, out_size_);
    }
  }

  int64_t SizeOf(size_t parameter) const {
    return model::ElementCount(parameters_[parameter].shape);
  }

  void Note(const char* call, const absl::Status& status) {
    if (status.ok() || !cpu_.failure.ok()) return;
    cpu_.failure =
        absl::Status(status.code(), absl::StrCat(name_, ": ", call, ": ", status.message()));
  }

  // NaN that comes of finite values is the plug-in's own. A training that diverges has infinite
  // ones first.
  void BlameForNan(const char* call, const char* what, const float* given, int64_t size) {
    if (!IsFinite(given, samples_ * size)) return;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (!IsFinite(views_.plugin[i], SizeOf(i))) return;
    }
    Note(call, absl::InvalidArgumentError(absl::StrCat(
                   "it wrote values that are no numbers (NaN) to its ", what,
                   ", and was given finite ones; mend the plug-in: look for divisions by 0, "
                   "logarithms and roots of negative values, and values that it does not write")));
  }

  CpuStream& cpu_;
  const std::string name_;  // in errors
  const ParameterViews views_;
  const std::vector<model::PluginParameter> parameters_;
  const int64_t in_size_;  // of a sample
  const int64_t out_size_;
  const int64_t batch_size_;
  const std::unique_ptr<model::PluginLayer> layer_;
  FormattedInput in_;
  // Those of the last Forward.
  int samples_ = 0;
  const float* in_values_ = nullptr;
};

// Stands for a layer that could not be made: the network is never run.
class CpuNothing : public CpuLayer {
 public:
  explicit CpuNothing(const CpuLayerInput& input) {
    out_ = MakeActivation(input.cpu, PlainDesc(input.batch_size, input.layer.out),
                          input.in.needs_gradient());
  }
  void Forward(const Batch&, Mode) override {}
  void Backward(const std::function<void()>&) override {}
};

}  // namespace

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Plugin& plugin, const CpuLayerInput& input) {
  auto layer = plugin.loaded->Make(plugin.config, {.in = input.layer.in,
                                                   .batch_size = input.batch_size,
                                                   .threads = omp_get_max_threads(),
                                                   .seed = input.options.seed});
  if (layer.ok() && (*layer)->out() == input.layer.out) {
    return std::make_unique<CpuPlugin>(input, *std::move(layer));
  }
  input.cpu.failure = absl::InvalidArgumentError(
      absl::StrCat(CpuPlugin::NameOf(input.layer), ": ",
                   layer.ok() ? "it gives another shape for another batch size; mend the plug-in"
                              : std::string(layer.status().message())));
  return std::make_unique<CpuNothing>(input);
}

}  // namespace dp::engine
