#include "worker/trainer/inference/continue_text.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/data/bpe_file.h"
#include "base/status.h"
#include "worker/trainer/inference/inference_model.h"
#include "worker/trainer/inference/sample_token.h"

namespace dp::trainer {
namespace {

using Tokens = std::vector<uint16_t>;

// The tokens of a model: bytes, or those of a byte-pair encoding.
class TextTokens {
 public:
  // `model_tokens`: how many different tokens the model knows.
  static absl::StatusOr<TextTokens> Open(const v1::DataSpec& data, const v1::DataPlaces& places,
                                         int64_t model_tokens) {
    const bool given = !places.bpe_vocab().empty() || !places.bpe_merges().empty();
    const bool bytes = data.kind() == "text" && !data.has_bpe();
    if (bytes && given) {
      return absl::InvalidArgumentError(
          "the tokens of the model are bytes; leave --bpe-vocab and --bpe-merges out");
    }
    TextTokens tokens;
    if (bytes) return tokens;
    const std::string& vocabulary = given ? places.bpe_vocab() : data.bpe().vocab();
    const std::string& merges = given ? places.bpe_merges() : data.bpe().merges();
    if (vocabulary.empty() || merges.empty()) {
      return absl::InvalidArgumentError(
          "the tokens of the model are not bytes; give the files of their encoding with "
          "--bpe-vocab "
          "and --bpe-merges");
    }
    DP_ASSIGN_OR_RETURN(tokens.bpe_, data::OpenBpeTokenizer(vocabulary, merges));
    if (tokens.bpe_->vocabulary() <= model_tokens) return tokens;
    return absl::InvalidArgumentError(
        absl::StrCat(vocabulary, " has ", tokens.bpe_->vocabulary(),
                     " tokens, but the model knows ", model_tokens,
                     "; give the files of the encoding on which it was trained with --bpe-vocab "
                     "and --bpe-merges"));
  }

  Tokens Encode(const std::string& text) const {
    if (bpe_) return bpe_->Encode(text);
    const auto* const first = reinterpret_cast<const uint8_t*>(text.data());
    return {first, first + text.size()};
  }
  std::string Decode(const Tokens& tokens) const {
    return bpe_ ? bpe_->Decode(tokens) : std::string(tokens.begin(), tokens.end());
  }

 private:
  std::optional<data::BpeTokenizer> bpe_;  // none: bytes
};

absl::Status CheckCausal(absl::Span<const model::LayerSpec> layers) {
  for (const model::LayerSpec& layer : layers) {
    const auto* attention = std::get_if<model::Attention>(&layer.kind);
    if (attention == nullptr || attention->causal) continue;
    return absl::InvalidArgumentError(
        "the model attends to later tokens, so it cannot go on with a text; only models whose "
        "attention is causal can");
  }
  return absl::OkStatus();
}

// A language model that sees up to `window` tokens.
class Continuation {
 public:
  Continuation(RankModel model, int64_t window)
      : model_(std::move(model)),
        window_(window),
        values_(static_cast<size_t>(window)),
        labels_(static_cast<size_t>(window)),
        logits_(static_cast<size_t>(model::ElementCount(model_.layers.back().out))) {}

  // The logits of the token that follows. Tokens behind those that are given change nothing,
  // because attention is causal.
  absl::StatusOr<absl::Span<const float>> After(const Tokens& tokens) {
    const int64_t count = std::min<int64_t>(std::ssize(tokens), window_);
    std::fill(values_.begin(), values_.end(), 0.0f);
    std::copy(tokens.end() - count, tokens.end(), values_.begin());
    constexpr int64_t kSample[] = {0};
    model_.network->Forward(
        {.images = values_, .labels = labels_, .samples = kSample, .count = 1, .targets = {}},
        engine::Mode::kEvaluate);
    model_.network->ReadLogits(absl::MakeSpan(logits_));
    DP_RETURN_IF_ERROR(model_.device->status());
    const size_t row = logits_.size() / static_cast<size_t>(window_);
    return absl::MakeConstSpan(logits_).subspan(static_cast<size_t>(count - 1) * row, row);
  }

 private:
  RankModel model_;
  const int64_t window_;
  std::vector<float> values_;
  std::vector<int32_t> labels_;
  std::vector<float> logits_;
};

}  // namespace

absl::StatusOr<v1::PredictResponse> ContinueTexts(const v1::PredictRequest& request,
                                                  const LoadedWeights& weights,
                                                  const TrainingPlan& plan) {
  DP_RETURN_IF_ERROR(CheckCausal(plan.layers));
  SampleForm form = FormFor(plan, weights);
  DP_ASSIGN_OR_RETURN(const TextTokens encoding,
                      TextTokens::Open(weights.job.train().data(), request.places(), form.classes));
  std::vector<Tokens> texts;
  int64_t longest = 0;
  for (const std::string& input : request.inputs()) {
    texts.push_back(encoding.Encode(input));
    if (texts.back().empty()) {
      return absl::InvalidArgumentError("the text is empty; give at least one character");
    }
    longest = std::max<int64_t>(longest, std::ssize(texts.back()));
  }
  // No more of the context than the texts will fill: the computation takes as long as it is.
  form.shape = {std::min(form.shape[0], longest + std::max(0, request.tokens() - 1))};
  DP_ASSIGN_OR_RETURN(RankModel model, LoadModel(plan, weights, form, /*rows=*/1));
  Continuation continuation(std::move(model), form.shape[0]);
  v1::PredictResponse response;
  for (Tokens& text : texts) {
    engine::Generator random(request.seed());
    const auto begin = std::ssize(text);
    for (int i = 0; i < request.tokens(); ++i) {
      DP_ASSIGN_OR_RETURN(const absl::Span<const float> logits, continuation.After(text));
      text.push_back(static_cast<uint16_t>(DrawToken(logits, request.temperature(), random)));
    }
    v1::Prediction& prediction = *response.add_predictions();
    prediction.set_input(response.predictions_size() - 1);
    prediction.set_text(encoding.Decode({text.begin() + begin, text.end()}));
    prediction.set_tokens(request.tokens());
  }
  return response;
}

}  // namespace dp::trainer
