#include "worker/trainer/model/data_plan.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/job/data_check.h"
#include "proto/job/data_defaults.h"
#include "proto/job/data_source.h"

namespace dp::trainer {
namespace {

// Decoding images takes far longer than all other reading (docs/engine.md).
constexpr int kFolderThreads = 2;

template <typename Number>
Number OrElse(Number value, Number fallback) {
  return value == 0 ? fallback : value;
}

std::vector<float> FloatsOf(const google::protobuf::RepeatedField<double>& numbers) {
  return {numbers.begin(), numbers.end()};
}

engine::Normalization NormalizationOf(const v1::DataSpec& spec) {
  return {.mean = FloatsOf(spec.mean()), .std = FloatsOf(spec.std())};
}

absl::Status UnknownKind(const v1::DataSpec& spec) {
  return absl::InvalidArgumentError(
      absl::StrCat("train.data.kind '", spec.kind(),
                   "' is unknown to this trainer; update dp on the workers, or use another kind"));
}

absl::StatusOr<engine::TokenDatasetOptions> TextOf(const v1::DataSpec& spec) {
  if (spec.context() < 1) return absl::InvalidArgumentError("train.data.context is missing");
  const bool tokens = spec.kind() == "tokens";
  return engine::TokenDatasetOptions{
      .format = tokens ? engine::TokenFormat::kTokens : engine::TokenFormat::kText,
      .train = {spec.train().begin(), spec.train().end()},
      .test = {spec.test().begin(), spec.test().end()},
      .context = spec.context(),
      .vocabulary = OrElse(spec.vocabulary(), DefaultVocabulary(spec)),
      .bpe_vocabulary = spec.bpe().vocab(),
      .bpe_merges = spec.bpe().merges()};
}

absl::StatusOr<engine::FolderDatasetOptions> FolderOf(const v1::DataSpec& spec, uint64_t seed) {
  if (spec.size_size() != 2) return absl::InvalidArgumentError("train.data.size is missing");
  engine::FolderDatasetOptions options{.dir = spec.dir(),
                                       .rows = spec.size(0),
                                       .columns = spec.size(1),
                                       .channels = OrElse(spec.channels(), 3),
                                       .classes = spec.classes(),
                                       .normalization = NormalizationOf(spec)};
  if (spec.augment().has_resized_crop()) {
    options.resized_crop = {
        .area_min = OrElse(spec.augment().resized_crop().area_min(), kCropAreaMin), .seed = seed};
  }
  return options;
}

absl::StatusOr<engine::SyntheticDatasetOptions> SyntheticOf(const v1::DataSpec& spec,
                                                            uint64_t seed) {
  const v1::SyntheticSpec& synthetic = spec.synthetic();
  if (synthetic.shape().empty() || synthetic.samples() < 1 || spec.classes() < 1) {
    return absl::InvalidArgumentError(
        "train.data.synthetic.shape, train.data.synthetic.samples or train.data.classes is "
        "missing");
  }
  return engine::SyntheticDatasetOptions{
      .shape = {synthetic.shape().begin(), synthetic.shape().end()},
      .classes = spec.classes(),
      .samples = synthetic.samples(),
      .test_samples = OrElse<int64_t>(synthetic.test_samples(), DefaultTestSamples(synthetic)),
      .seed = seed,
      .normalization = NormalizationOf(spec)};
}

std::optional<engine::AugmentOptions> AugmentationOf(const v1::DataSpec& spec, uint64_t seed) {
  const v1::AugmentSpec& augment = spec.augment();
  if (!augment.flip() && augment.crop().padding() == 0) return std::nullopt;
  return engine::AugmentOptions{
      .flip = augment.flip(), .padding = augment.crop().padding(), .seed = seed};
}

}  // namespace

absl::StatusOr<DataPlan> PlanData(const v1::TrainSpec& train) {
  const v1::DataSpec& spec = train.data();
  DataPlan plan{.validation = spec.validation(),
                .augment = AugmentationOf(spec, train.seed()),
                .prefetch_threads = OrElse(spec.prefetch_threads(), 1),
                .classes = spec.classes()};
  if (IsText(spec)) {
    DP_ASSIGN_OR_RETURN(plan.source, TextOf(spec));
  } else if (spec.kind() == "imageFolder") {
    plan.prefetch_threads = OrElse(spec.prefetch_threads(), kFolderThreads);
    DP_ASSIGN_OR_RETURN(plan.source, FolderOf(spec, train.seed()));
  } else if (spec.kind() == "synthetic") {
    DP_ASSIGN_OR_RETURN(plan.source, SyntheticOf(spec, train.seed()));
  } else {
    const std::optional<data::SampleSource> source = SourceOf(spec, train.model());
    if (!source) return UnknownKind(spec);
    engine::ArrayDatasetOptions arrays = {
        .source = *source, .classes = spec.classes(), .normalization = NormalizationOf(spec)};
    const v1::CrossEntropyLossSpec& loss = train.loss().cross_entropy();
    if (loss.has_ignore_index()) arrays.ignored_label = loss.ignore_index();
    plan.source = std::move(arrays);
  }
  return plan;
}

}  // namespace dp::trainer
