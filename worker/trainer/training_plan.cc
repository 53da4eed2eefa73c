#include "worker/trainer/training_plan.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status.h"

namespace dp::trainer {
namespace {

template <typename Number>
Number OrDefault(Number value, Number fallback) {
  return value == 0 ? fallback : value;
}

engine::Conv2d Conv2dOf(const v1::Conv2dSpec& spec) {
  return {.in = spec.in(),
          .out = spec.out(),
          .kernel = spec.kernel(),
          .stride = OrDefault(spec.stride(), 1),
          .padding = spec.padding(),
          .bias = !spec.has_bias() || spec.bias()};
}

engine::Linear LinearOf(const v1::LinearSpec& spec) {
  return {.in = spec.in(), .out = spec.out(), .bias = !spec.has_bias() || spec.bias()};
}

absl::StatusOr<engine::LayerKind> KindOf(const v1::LayerSpec& spec) {
  switch (spec.kind_case()) {
    case v1::LayerSpec::kLinear:
      return LinearOf(spec.linear());
    case v1::LayerSpec::kConv2D:
      return Conv2dOf(spec.conv2d());
    case v1::LayerSpec::kRelu:
      return engine::Relu{};
    case v1::LayerSpec::kMaxPool2D:
      return engine::MaxPool2d{.kernel = spec.max_pool2d().kernel(),
                               .stride = spec.max_pool2d().stride()};
    case v1::LayerSpec::kFlatten:
      return engine::Flatten{};
    case v1::LayerSpec::kDropout:
      return engine::Dropout{.p = spec.dropout().p()};
    case v1::LayerSpec::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("train.model.layers: a layer has no kind");
}

absl::StatusOr<std::vector<engine::LayerSpec>> LayersOf(const v1::ModelSpec& spec) {
  if (!spec.preset().empty()) return engine::Preset(spec.preset());
  std::vector<engine::LayerSpec> layers;
  for (const v1::LayerSpec& layer : spec.layers()) {
    DP_ASSIGN_OR_RETURN(engine::LayerKind kind, KindOf(layer));
    layers.push_back({.name = layer.name(), .kind = std::move(kind)});
  }
  return layers;
}

engine::IdxDatasetOptions DataOf(const v1::DataSpec& spec) {
  return {.dir = spec.dir(),
          .mean = static_cast<float>(spec.mean()),
          .std = spec.has_std() ? static_cast<float>(spec.std()) : 1.0f};
}

engine::SgdOptions SgdOf(const v1::SgdSpec& spec) {
  return {.learning_rate = static_cast<float>(spec.learning_rate()),
          .momentum = static_cast<float>(spec.momentum()),
          .weight_decay = static_cast<float>(spec.weight_decay())};
}

absl::Duration DurationOf(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

}  // namespace

absl::StatusOr<TrainingPlan> PlanTraining(const v1::JobSpec& spec) {
  if (!spec.has_train()) return absl::InvalidArgumentError("train is missing: nothing to run");
  const v1::TrainSpec& train = spec.train();
  TrainingPlan plan;
  plan.seed = train.seed();
  plan.epochs = OrDefault(train.epochs(), 1);
  plan.steps_max = train.max_steps();
  plan.global_batch_size = OrDefault(train.global_batch_size(), 128);
  plan.shuffle = !train.data().has_shuffle() || train.data().shuffle();
  plan.drop_last = train.data().drop_last();
  plan.data = DataOf(train.data());
  DP_ASSIGN_OR_RETURN(plan.layers, LayersOf(train.model()));
  plan.sgd = SgdOf(train.optimizer().sgd());
  if (!train.backend().empty()) plan.backend = train.backend();
  plan.threads = OrDefault(spec.threads_per_rank(), 1);
  plan.bucket_bytes_max = static_cast<int64_t>(OrDefault(train.bucket_cap_mb(), 25.0) * (1 << 20));
  plan.evaluate_every = train.has_evaluate_every() ? train.evaluate_every() : 1;
  if (spec.has_detect_within()) plan.detect_within = DurationOf(spec.detect_within());
  plan.trace_file = train.trace();
  plan.weights_file = train.output().weights();
  return plan;
}

}  // namespace dp::trainer
