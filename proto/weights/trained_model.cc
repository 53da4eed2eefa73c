#include "proto/weights/trained_model.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "google/protobuf/util/json_util.h"
#include "proto/job/data_check.h"
#include "proto/job/job_spec.h"

namespace dp {
namespace {

constexpr int kModelFormat = 1;
constexpr char kModelText[] = "dp.model";

// The form of the samples: no places, and nothing that only training reads.
v1::DataSpec FormOf(const v1::DataSpec& data) {
  v1::DataSpec form = data;
  form.clear_dir();
  form.clear_train();
  form.clear_test();
  form.clear_arrays();
  form.clear_drop_last();
  form.clear_shuffle();
  form.clear_prefetch_threads();
  form.clear_augment();
  if (form.has_bpe()) form.mutable_bpe()->Clear();
  return form;
}

// The loss that the data decides where the job names none.
v1::LossSpec LossOf(const v1::TrainSpec& train) {
  v1::LossSpec loss = train.loss();
  if (loss.kind_case() == v1::LossSpec::KIND_NOT_SET && HasTargets(train.data())) {
    loss.mutable_mse();
  }
  return loss;
}

v1::TrainSpec ComputedBy(const v1::JobSpec& job) {
  const v1::TrainSpec& train = job.train();
  v1::TrainSpec computed;
  computed.set_seed(train.seed());  // it chooses the samples of `validation`
  *computed.mutable_loss() = LossOf(train);
  computed.set_global_batch_size(static_cast<int32_t>(GlobalBatchSize(job)));
  if (train.accumulate() > 1) computed.set_accumulate(train.accumulate());
  *computed.mutable_data() = FormOf(train.data());
  *computed.mutable_model() = train.model();
  computed.set_precision(train.precision());
  if (train.has_metrics()) *computed.mutable_metrics() = train.metrics();
  if (train.has_ema()) *computed.mutable_ema() = train.ema();
  return computed;
}

}  // namespace

v1::TrainedModel DescribeModel(const v1::JobSpec& job, const TrainedOn& samples) {
  v1::TrainedModel model;
  model.set_format(kModelFormat);
  *model.mutable_train() = ComputedBy(job);
  model.set_ranks(samples.ranks);
  model.set_threads_per_rank(job.threads_per_rank());
  for (const int64_t extent : samples.form.shape) model.add_sample_shape(extent);
  for (const int64_t extent : samples.form.targets) model.add_target_shape(extent);
  model.set_classes(samples.form.classes);
  for (const std::string& name : samples.class_names) model.add_class_names(name);
  return model;
}

SafetensorsMetadata MetadataOf(const v1::TrainedModel& model) {
  std::string json;
  DP_CHECK(google::protobuf::util::MessageToJsonString(model, &json).ok());
  return {{"format", "pt"}, {kModelText, json}};
}

absl::StatusOr<std::optional<v1::TrainedModel>> ModelIn(const SafetensorsMetadata& metadata) {
  const auto text = metadata.find(kModelText);
  if (text == metadata.end()) return std::nullopt;
  v1::TrainedModel model;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // a later release may have added fields
  if (!google::protobuf::util::JsonStringToMessage(text->second, &model, options).ok()) {
    return absl::InvalidArgumentError("its description of the model is damaged");
  }
  if (model.format() == kModelFormat) return model;
  return absl::UnimplementedError(absl::StrCat("its description of the model has format ",
                                               model.format(), "; this release reads ",
                                               kModelFormat));
}

v1::JobSpec JobOf(const v1::TrainedModel& model) {
  v1::JobSpec job;
  *job.mutable_train() = model.train();
  job.set_ranks(model.ranks());
  job.set_threads_per_rank(model.threads_per_rank());
  return job;
}

}  // namespace dp
