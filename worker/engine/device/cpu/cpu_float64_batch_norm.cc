#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "worker/engine/device/cpu/cpu_layer.h"
#include "worker/engine/device/cpu/cpu_nan.h"
#include "worker/engine/device/cpu/cpu_relu_gradient.h"
#include "worker/engine/nn/batch_statistics.h"

namespace dp::engine {
namespace {

// (x - mean) / sqrt(variance + epsilon) w + b for each channel, and the ReLU behind it. Sums are of
// float64. With `sync` mean and variance are over the samples of all ranks: torch.nn.SyncBatchNorm.
// Ranks combine their sums in rank order, so their number and shares change results by rounding
// alone.
class CpuFloat64BatchNorm : public CpuLayer {
 public:
  CpuFloat64BatchNorm(const CpuLayerInput& input, const model::BatchNorm& norm)
      : views_(input.options.parameters),
        exchange_(norm.sync ? input.options.exchange : RankExchange()),
        epsilon_(norm.epsilon),
        shape_{.samples = static_cast<size_t>(input.batch_size),
               .channels = static_cast<size_t>(input.layer.in.front()),
               .positions = static_cast<size_t>(model::ElementCount(input.layer.in) /
                                                input.layer.in.front())},
        in_(input.cpu, input.in, PlainDesc(input.batch_size, input.layer.in)),
        mean_(shape_.channels),
        inverse_deviation_(shape_.channels) {
    // Its own parameters always need the gradient.
    out_ = MakeActivation(input.cpu, PlainDesc(input.batch_size, input.layer.out), true);
    if (input.options.relu != FusedRelu::kNone) relu_.emplace(input.cpu, out_);
  }

  void Forward(const Batch& batch, Mode mode) override {
    const float* in = in_.Fetch();
    if (mode == Mode::kEvaluate) {
      TakeRunning();
      Normalize(shape_, in);
    } else {
      const ChannelShape counted = Counted(batch.count);
      MeasureAllRanks(counted, in);
      Normalize(counted, in);
      ZeroPadding(Values(out_.value));
    }
    if (relu_) ReluOf(Values(out_.value), Values(out_.value));
  }

  void Backward(const std::function<void()>& parameters_ready) override {
    if (relu_) relu_->Run();
    const float* in = Floats(in_.memory());
    const float* out_gradient = Floats(out_.gradient);
    std::vector<double> sums(2 * shape_.channels);
    SumChannelGradients(counted_, in, out_gradient, By(), sums.data());
    std::copy(sums.begin(), sums.begin() + channels(), views_.bias_gradient);
    std::copy(sums.begin() + channels(), sums.end(), views_.weight_gradient);
    float* in_gradient = in_.gradient();
    // Before the gradients of the parameters, whose all-reduce would delay this exchange.
    if (in_gradient != nullptr) AddOtherRanks(sums);
    parameters_ready();
    if (in_gradient == nullptr) return;
    if (statistics_.count > 0) {
      ChannelInputGradient(counted_, in, out_gradient, views_.weight, By(), sums.data(),
                           in_gradient);
    }
    ZeroPadding({in_gradient, shape_.size()});
    in_.Store();
  }

 private:
  std::ptrdiff_t channels() const { return static_cast<std::ptrdiff_t>(shape_.channels); }
  ChannelShape Counted(int count) {
    counted_ = shape_;
    counted_.samples = static_cast<size_t>(count);
    return counted_;
  }
  ChannelStatistics By() const {
    return {.count = statistics_.count,
            .mean = mean_.data(),
            .inverse_deviation = inverse_deviation_.data()};
  }
  void ZeroPadding(absl::Span<float> values) const {
    std::fill(values.begin() + static_cast<std::ptrdiff_t>(counted_.size()), values.end(), 0.0f);
  }

  // Every rank's `mine`, in rank order.
  std::vector<double> FromAllRanks(const std::vector<double>& mine) const {
    if (exchange_.ranks == 1) return mine;
    std::vector<double> all(mine.size() * static_cast<size_t>(exchange_.ranks));
    exchange_.gather(mine, absl::MakeSpan(all));
    return all;
  }

  // The measured values are part of the step's gradients. They are the same on all ranks, so the
  // mean over ranks leaves them as they are. The variance is unbiased, as PyTorch averages it.
  void MeasureAllRanks(const ChannelShape& counted, const float* in) {
    const BatchStatistics mine = SumUp({in, counted.size()}, counted.samples, counted.channels);
    statistics_ = Combine(FromAllRanks(mine.Packed()), shape_.channels);
    const double count = std::max(1.0, statistics_.count);
    for (size_t c = 0; c < shape_.channels; ++c) {
      const double squares = statistics_.squares[c];
      mean_[c] = statistics_.mean[c];
      inverse_deviation_[c] = 1 / std::sqrt(squares / count + epsilon_);
      views_.measured_mean[c] = static_cast<float>(mean_[c]);
      views_.measured_variance[c] = static_cast<float>(count > 1 ? squares / (count - 1) : 0);
    }
  }

  void AddOtherRanks(std::vector<double>& sums) const {
    const std::vector<double> all = FromAllRanks(sums);
    std::fill(sums.begin(), sums.end(), 0.0);
    for (size_t i = 0; i < all.size(); ++i) sums[i % sums.size()] += all[i];
  }

  void TakeRunning() {
    for (size_t c = 0; c < shape_.channels; ++c) {
      mean_[c] = views_.running_mean[c];
      inverse_deviation_[c] = 1 / std::sqrt(views_.running_variance[c] + epsilon_);
    }
  }

  void Normalize(const ChannelShape& shape, const float* in) {
    NormalizeChannels(shape, in, views_.weight, views_.bias, By(), Floats(out_.value));
  }

  const ParameterViews views_;
  const RankExchange exchange_;
  const double epsilon_;
  const ChannelShape shape_;
  FormattedInput in_;
  std::optional<ReluGradient> relu_;
  // Those of the last Forward.
  ChannelShape counted_;  // the samples that count
  BatchStatistics statistics_;
  std::vector<double> mean_;
  std::vector<double> inverse_deviation_;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeCpuFloat64BatchNorm(const model::BatchNorm& norm,
                                                  const CpuLayerInput& input) {
  return std::make_unique<CpuFloat64BatchNorm>(input, norm);
}

}  // namespace dp::engine
