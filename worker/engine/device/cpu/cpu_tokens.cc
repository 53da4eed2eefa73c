// The two layers that a text model begins with. Sums over tokens follow the order of the batch, so
// the same batch gives the same bits.

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "worker/engine/device/cpu/cpu_layer.h"

namespace dp::engine {
namespace {

void AddTo(const float* __restrict from, int64_t size, float* __restrict to) {
  for (int64_t i = 0; i < size; ++i) to[i] += from[i];
}

// out[row] = weight[token of row]
class CpuEmbedding : public CpuLayer {
 public:
  CpuEmbedding(const CpuLayerInput& input, const model::Embedding& embedding)
      : views_(input.options.parameters),
        tied_(input.options.tied),
        vocabulary_(embedding.vocabulary),
        tokens_of_sample_(input.layer.out[0]),
        features_(input.layer.out[1]),
        in_(input.in),
        tokens_(input.batch_size * tokens_of_sample_) {
    out_ = MakeActivation(input.cpu, PlainDesc(input.batch_size, input.layer.out), true);
  }

  // Padding may hold anything; it is computed as token 0.
  void Forward(const Batch& batch, Mode) override {
    const float* in = Floats(in_.value);
    const size_t known = batch.count * tokens_of_sample_;
    for (size_t row = 0; row < tokens_.size(); ++row) {
      tokens_[row] = row < known ? static_cast<int64_t>(in[row]) : 0;
      DP_CHECK(tokens_[row] >= 0 && tokens_[row] < vocabulary_);
      std::copy_n(views_.weight + tokens_[row] * features_, features_,
                  Floats(out_.value) + row * features_);
    }
  }

  void Backward(const std::function<void()>& parameters_ready) override {
    if (!tied_) std::fill_n(views_.weight_gradient, vocabulary_ * features_, 0.0f);
    for (size_t row = 0; row < tokens_.size(); ++row) {
      AddTo(Floats(out_.gradient) + row * features_, features_,
            views_.weight_gradient + tokens_[row] * features_);
    }
    parameters_ready();
  }

 private:
  const ParameterViews views_;
  const bool tied_;
  const int64_t vocabulary_;
  const int64_t tokens_of_sample_;
  const int64_t features_;
  const Activation in_;
  std::vector<int64_t> tokens_;  // of the last Forward
};

// out[row] = in[row] + weight[position of row in its sample]
class CpuPositions : public CpuLayer {
 public:
  explicit CpuPositions(const CpuLayerInput& input)
      : views_(input.options.parameters),
        batch_size_(input.batch_size),
        sample_size_(model::ElementCount(input.layer.in)),
        in_(input.cpu, input.in, PlainDesc(input.batch_size, input.layer.in)) {
    out_ = MakeActivation(input.cpu, PlainDesc(input.batch_size, input.layer.out), true);
  }

  void Forward(const Batch&, Mode) override {
    std::copy_n(in_.Fetch(), batch_size_ * sample_size_, Floats(out_.value));
    for (int64_t i = 0; i < batch_size_; ++i) {
      AddTo(views_.weight, sample_size_, Floats(out_.value) + i * sample_size_);
    }
  }

  void Backward(const std::function<void()>& parameters_ready) override {
    const float* gradient = Floats(out_.gradient);
    std::copy_n(gradient, sample_size_, views_.weight_gradient);
    for (int64_t i = 1; i < batch_size_; ++i) {
      AddTo(gradient + i * sample_size_, sample_size_, views_.weight_gradient);
    }
    parameters_ready();
    if (in_.gradient() == nullptr) return;
    std::copy_n(gradient, batch_size_ * sample_size_, in_.gradient());
    in_.Store();
  }

 private:
  const ParameterViews views_;
  const int64_t batch_size_;
  const int64_t sample_size_;
  FormattedInput in_;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Embedding& embedding,
                                       const CpuLayerInput& input) {
  return std::make_unique<CpuEmbedding>(input, embedding);
}

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Positions&, const CpuLayerInput& input) {
  return std::make_unique<CpuPositions>(input);
}

}  // namespace dp::engine
