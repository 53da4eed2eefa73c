#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/check.h"
#include "worker/engine/device/cpu/cpu_layer.h"
#include "worker/engine/nn/rotary_angles.h"

namespace dp::engine {
namespace {

// Rows that lie `stride` floats apart.
struct Matrix {
  float* data;
  int64_t stride;
};

// to = scale a b, with `rows` x `columns` elements, each a sum of `inner` products.
struct Product {
  char transpose_a;
  char transpose_b;
  int64_t rows;
  int64_t columns;
  int64_t inner;
  float scale = 1;

  void operator()(const Matrix& a, const Matrix& b, const Matrix& to) const {
    const dnnl::status status =
        dnnl::sgemm(transpose_a, transpose_b, rows, columns, inner, scale, a.data, a.stride, b.data,
                    b.stride, 0, to.data, to.stride);
    DP_CHECK(status == dnnl::status::success);
  }
};

// Turns the features of each token's row by angles that grow with its place.
class Rotation {
 public:
  Rotation(int64_t tokens, int64_t features) : half_(features / 2), angles_(tokens, features) {}

  // `from` may be `to`. `backwards`: by the negative angles, which is the gradient.
  void Turn(const Matrix& from, bool backwards, const Matrix& to) const {
    const float direction = backwards ? -1.0f : 1.0f;
    for (size_t k = 0; k < angles_.sines.size(); ++k) {
      const auto token = static_cast<int64_t>(k) / half_, i = static_cast<int64_t>(k) % half_;
      const float* in = from.data + token * from.stride + i;
      float* out = to.data + token * to.stride + i;
      const float a = in[0], b = in[half_];
      out[0] = a * angles_.cosines[k] - b * direction * angles_.sines[k];
      out[half_] = b * angles_.cosines[k] + a * direction * angles_.sines[k];
    }
  }

 private:
  const int64_t half_;
  const RotaryAngles angles_;
};

// For each head, out = softmax(scale q kᵀ) v, scale = 1 / sqrt(features of a head). A causal token
// sees itself and the tokens before it. A row of the input holds queries, then keys, then values,
// each head after head. Backward recomputes the probabilities, tokens x tokens for each head,
// instead of keeping them.
class CpuAttention : public CpuLayer {
 public:
  CpuAttention(const CpuLayerInput& input, const model::Attention& attention)
      : heads_(attention.heads),
        causal_(attention.causal),
        batch_size_(input.batch_size),
        tokens_(input.layer.out[0]),
        features_(input.layer.out[1]),
        head_features_(features_ / heads_),
        scale_(1 / std::sqrt(static_cast<float>(head_features_))),
        in_(input.cpu, input.in, PlainDesc(input.batch_size, input.layer.in)),
        probabilities_(tokens_ * tokens_),
        slopes_(tokens_ * tokens_) {
    out_ = MakeActivation(input.cpu, PlainDesc(input.batch_size, input.layer.out),
                          input.in.needs_gradient());
    if (!attention.rotary) return;
    rotation_.emplace(tokens_, head_features_);
    turned_queries_.resize(tokens_ * head_features_);
    turned_keys_.resize(tokens_ * head_features_);
  }

  void Forward(const Batch&, Mode) override {
    in_values_ = in_.Fetch();
    ForEachHead([this](int64_t sample, int64_t head) {
      const Slices in = Turned(SlicesOf(const_cast<float*>(in_values_), sample, head));
      ComputeProbabilities(in);
      const Product mix{'N', 'N', tokens_, head_features_, tokens_};
      mix(Square(probabilities_), in.values, OutSlice(out_.value, sample, head));
    });
  }

  void Backward(const std::function<void()>&) override {
    if (in_.gradient() == nullptr) return;
    ForEachHead([this](int64_t sample, int64_t head) {
      const Slices in = Turned(SlicesOf(const_cast<float*>(in_values_), sample, head));
      const Slices gradient = SlicesOf(in_.gradient(), sample, head);
      ComputeProbabilities(in);
      BackwardHead(in, OutSlice(out_.gradient, sample, head), gradient);
      if (!rotation_) return;
      rotation_->Turn(gradient.queries, /*backwards=*/true, gradient.queries);
      rotation_->Turn(gradient.keys, /*backwards=*/true, gradient.keys);
    });
    in_.Store();
  }

 private:
  // One head of one sample; each matrix has tokens x features of a head.
  struct Slices {
    Matrix queries;
    Matrix keys;
    Matrix values;
  };

  void ForEachHead(const std::function<void(int64_t sample, int64_t head)>& run) const {
    for (int64_t sample = 0; sample < batch_size_; ++sample) {
      for (int64_t head = 0; head < heads_; ++head) run(sample, head);
    }
  }

  Slices SlicesOf(float* in, int64_t sample, int64_t head) const {
    const int64_t stride = 3 * features_;
    float* first = in + sample * tokens_ * stride + head * head_features_;
    return {{first, stride}, {first + features_, stride}, {first + 2 * features_, stride}};
  }
  Matrix OutSlice(const dnnl::memory& out, int64_t sample, int64_t head) const {
    return {Floats(out) + sample * tokens_ * features_ + head * head_features_, features_};
  }
  Matrix Square(std::vector<float>& of) const { return {of.data(), tokens_}; }
  // With queries and keys as the scores take them.
  Slices Turned(const Slices& in) {
    if (!rotation_) return in;
    const Slices turned = {
        {turned_queries_.data(), head_features_}, {turned_keys_.data(), head_features_}, in.values};
    rotation_->Turn(in.queries, /*backwards=*/false, turned.queries);
    rotation_->Turn(in.keys, /*backwards=*/false, turned.keys);
    return turned;
  }
  // How many tokens the one of this row sees.
  int64_t Seen(int64_t row) const { return causal_ ? row + 1 : tokens_; }

  void ComputeProbabilities(const Slices& in) {
    const Product scores{'N', 'T', tokens_, tokens_, head_features_, scale_};
    scores(in.queries, in.keys, Square(probabilities_));
    for (int64_t row = 0; row < tokens_; ++row) {
      Softmax(absl::MakeSpan(probabilities_).subspan(row * tokens_, tokens_), Seen(row));
    }
  }

  // Softmax over the first `known` values of a row; the others become zero.
  static void Softmax(absl::Span<float> row, int64_t known) {
    const auto end = row.begin() + known;
    const float largest = *std::max_element(row.begin(), end);
    float sum = 0;
    for (float& value : row.first(known)) {
      value = std::exp(value - largest);
      sum += value;
    }
    for (float& value : row.first(known)) value /= sum;
    std::fill(end, row.end(), 0.0f);
  }

  void BackwardHead(const Slices& in, const Matrix& out_gradient, const Slices& gradient) {
    const Product across{'T', 'N', tokens_, head_features_, tokens_};
    across(Square(probabilities_), out_gradient, gradient.values);
    const Product outer{'N', 'T', tokens_, tokens_, head_features_};
    outer(out_gradient, in.values, Square(slopes_));
    for (int64_t row = 0; row < tokens_; ++row) SoftmaxGradient(row);
    const Product to_queries{'N', 'N', tokens_, head_features_, tokens_, scale_};
    to_queries(Square(slopes_), in.keys, gradient.queries);
    const Product to_keys{'T', 'N', tokens_, head_features_, tokens_, scale_};
    to_keys(Square(slopes_), in.queries, gradient.keys);
  }

  // Turns the gradient of a row of probabilities into that of its scores.
  void SoftmaxGradient(int64_t row) {
    const float* p = probabilities_.data() + row * tokens_;
    float* slope = slopes_.data() + row * tokens_;
    const int64_t seen = Seen(row);
    float mean = 0;
    for (int64_t i = 0; i < seen; ++i) mean += p[i] * slope[i];
    for (int64_t i = 0; i < seen; ++i) slope[i] = p[i] * (slope[i] - mean);
    std::fill(slope + seen, slope + tokens_, 0.0f);
  }

  const int64_t heads_;
  const bool causal_;
  const int64_t batch_size_;
  const int64_t tokens_;
  const int64_t features_;  // of all heads
  const int64_t head_features_;
  const float scale_;
  FormattedInput in_;
  const float* in_values_ = nullptr;  // of the last Forward
  // Scratch for the head in progress.
  std::vector<float> probabilities_;
  std::vector<float> slopes_;
  std::optional<Rotation> rotation_;
  std::vector<float> turned_queries_;
  std::vector<float> turned_keys_;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::CausalAttention& attention,
                                       const CpuLayerInput& input) {
  return std::make_unique<CpuAttention>(input,
                                        model::Attention{.heads = attention.heads, .causal = true});
}

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Attention& attention,
                                       const CpuLayerInput& input) {
  return std::make_unique<CpuAttention>(input, attention);
}

}  // namespace dp::engine
