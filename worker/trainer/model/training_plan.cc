#include "worker/trainer/model/training_plan.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/convert/time.h"
#include "proto/job/data_check.h"
#include "proto/job/job_spec.h"
#include "proto/job/model_layers.h"
#include "worker/trainer/model/data_plan.h"
#include "worker/trainer/model/schedule_plan.h"

namespace dp::trainer {
namespace {

template <typename Number>
Number OrDefault(Number value, Number fallback) {
  return value == 0 ? fallback : value;
}

engine::SgdOptions SgdOf(const v1::SgdSpec& spec) {
  return {.learning_rate = spec.learning_rate(),
          .momentum = static_cast<float>(spec.momentum()),
          .weight_decay = static_cast<float>(spec.weight_decay()),
          .nesterov = spec.nesterov()};
}

engine::AdamWOptions AdamWOf(const v1::AdamWSpec& spec) {
  return {.learning_rate = spec.learning_rate(),
          .beta1 = spec.has_beta1() ? spec.beta1() : 0.9,
          .beta2 = spec.has_beta2() ? spec.beta2() : 0.999,
          .epsilon = OrDefault(spec.epsilon(), 1e-8),
          .weight_decay = spec.has_weight_decay() ? spec.weight_decay() : 0.01,
          .decay_all = spec.decay() == "all"};
}

engine::AdamWOptions AdamOf(const v1::AdamSpec& spec) {
  return {.learning_rate = spec.learning_rate(),
          .beta1 = spec.has_beta1() ? spec.beta1() : 0.9,
          .beta2 = spec.has_beta2() ? spec.beta2() : 0.999,
          .epsilon = OrDefault(spec.epsilon(), 1e-8),
          .weight_decay = spec.weight_decay(),
          .decay_all = true,
          .decay_in_gradient = true};
}

std::variant<engine::SgdOptions, engine::AdamWOptions> UpdateOf(const v1::OptimizerSpec& spec) {
  if (spec.has_adamw()) return AdamWOf(spec.adamw());
  if (spec.has_adam()) return AdamOf(spec.adam());
  return SgdOf(spec.sgd());
}

absl::StatusOr<engine::Precision> PrecisionOf(const std::string& name) {
  if (name.empty()) return engine::Precision::kFloat32;
  using enum engine::Precision;
  for (const engine::Precision each : {kFloat32, kBfloat16, kTf32}) {
    if (name == NameOf(each)) return each;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("train.precision: '", name, "' is unknown; use float32, tf32 or bf16"));
}

// Without a loss in the job, data with targets takes the squared error.
engine::Loss LossOf(const v1::TrainSpec& train) {
  const v1::LossSpec& spec = train.loss();
  switch (spec.kind_case()) {
    case v1::LossSpec::kMse:
      return engine::MseLoss();
    case v1::LossSpec::kL1:
      return engine::L1Loss();
    case v1::LossSpec::kBce:
      return engine::BceLoss();
    case v1::LossSpec::kNorm:
      return engine::NormLoss();
    case v1::LossSpec::KIND_NOT_SET:
      if (dp::HasTargets(train.data())) return engine::MseLoss();
      break;
    case v1::LossSpec::kCrossEntropy:
      break;
  }
  const v1::CrossEntropyLossSpec& of_labels = spec.cross_entropy();
  engine::CrossEntropyLoss loss = {
      .label_smoothing = of_labels.label_smoothing(),
      .class_weights = {of_labels.class_weights().begin(), of_labels.class_weights().end()}};
  if (of_labels.has_ignore_index()) loss.ignored = of_labels.ignore_index();
  return loss;
}

absl::StatusOr<WatchedMetric> MetricOf(absl::string_view path, const std::string& name) {
  const auto metric = ParseWatchedMetric(name);
  if (metric) return *metric;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": '", name, "' is unknown to this trainer; update dp on the workers"));
}

absl::StatusOr<std::optional<EarlyStopPlan>> EarlyStopOf(const v1::TrainSpec& train) {
  if (!train.has_early_stop()) return std::nullopt;
  const v1::EarlyStopSpec& spec = train.early_stop();
  DP_ASSIGN_OR_RETURN(const WatchedMetric metric,
                      MetricOf("train.earlyStop.metric", spec.metric()));
  return EarlyStopPlan{
      .metric = metric, .patience = spec.patience(), .min_delta = spec.min_delta()};
}

absl::StatusOr<CheckpointPlan> CheckpointsOf(const v1::CheckpointSpec& spec) {
  CheckpointPlan plan = {
      .dir = spec.dir(),
      .every_steps = spec.every_steps(),
      .every = spec.has_every() ? FromProto(spec.every()) : absl::InfiniteDuration(),
      .keep = OrDefault(spec.keep(), 2)};
  if (spec.has_best()) {
    DP_ASSIGN_OR_RETURN(plan.best, MetricOf("train.checkpoint.best.metric", spec.best().metric()));
  }
  return plan;
}

std::optional<LocalSgdPlan> LocalSgdOf(const v1::StrategySpec& strategy) {
  if (!strategy.has_local_sgd()) return std::nullopt;
  const v1::LocalSgdStrategySpec& spec = strategy.local_sgd();
  return LocalSgdPlan{.sync_every = spec.sync_every(),
                      .outer = {.learning_rate = spec.outer_learning_rate(),
                                .momentum = spec.outer_momentum(),
                                .nesterov = spec.nesterov()}};
}

std::optional<TablePlan> TableOf(const v1::StrategySpec& strategy) {
  if (!strategy.has_ps()) return std::nullopt;
  const v1::PsStrategySpec& ps = strategy.ps();
  using Mode = TablePlan::Mode;
  TablePlan table;
  table.mode = ps.mode() == "async"     ? Mode::kAsync
               : ps.mode() == "bounded" ? Mode::kBounded
                                        : Mode::kSync;
  if (ps.has_max_staleness()) table.max_staleness = ps.max_staleness();
  table.publish_every = OrDefault(int64_t{ps.publish_every()}, table.publish_every);
  return table;
}

}  // namespace

int64_t TokensPerSample(const TrainingPlan& plan) {
  const auto* text = std::get_if<engine::TokenDatasetOptions>(&plan.data.source);
  return text == nullptr ? 0 : text->context;
}

std::string OptimizerName(const TrainingPlan& plan) {
  const auto* adamw = std::get_if<engine::AdamWOptions>(&plan.optimizer);
  if (adamw == nullptr) return "sgd";
  return adamw->decay_in_gradient ? "adam" : "adamw";
}

double LearningRate(const TrainingPlan& plan) {
  return std::visit([](const auto& options) { return options.learning_rate; }, plan.optimizer);
}

std::string NameOf(engine::Precision precision) {
  switch (precision) {
    case engine::Precision::kFloat32:
      return "float32";
    case engine::Precision::kBfloat16:
      return "bf16";
    case engine::Precision::kTf32:
      return "tf32";
  }
  return "";
}

absl::StatusOr<TrainingPlan> PlanTraining(const v1::JobSpec& spec) {
  if (!spec.has_train()) return absl::InvalidArgumentError("train is missing: nothing to run");
  const v1::TrainSpec& train = spec.train();
  TrainingPlan plan;
  plan.seed = train.seed();
  plan.epochs = OrDefault(train.epochs(), 1);
  plan.steps_max = train.max_steps();
  plan.global_batch_size = static_cast<int>(OrDefault(GlobalBatchSize(spec), int64_t{128}));
  plan.accumulate = train.has_accumulate() ? train.accumulate() : 1;
  plan.steps_per_epoch = train.steps_per_epoch();
  plan.shuffle = !train.data().has_shuffle() || train.data().shuffle();
  plan.drop_last = train.data().drop_last();
  DP_ASSIGN_OR_RETURN(plan.data, PlanData(train));
  DP_ASSIGN_OR_RETURN(plan.layers, ModelLayers(train.model()));
  plan.loss = LossOf(train);
  DP_ASSIGN_OR_RETURN(plan.precision, PrecisionOf(train.precision()));
  plan.deterministic = !train.has_deterministic() || train.deterministic();
  plan.optimizer = UpdateOf(train.optimizer());
  plan.schedule = ScheduleOf(train.schedule());
  plan.clip_norm = train.clip_norm();
  plan.average_decay = train.ema().decay();
  plan.average_evaluates = !train.ema().has_evaluate() || train.ema().evaluate();
  for (const v1::ParameterGroupSpec& group : train.groups()) plan.groups.push_back(GroupOf(group));
  if (train.strategy().has_dp()) plan.replicas = train.strategy().dp().devices();
  plan.local_sgd = LocalSgdOf(train.strategy());
  plan.table = TableOf(train.strategy());
  if (!train.backend().empty()) plan.backend = train.backend();
  plan.threads = OrDefault(spec.threads_per_rank(), 1);
  plan.bucket_bytes_max = static_cast<int64_t>(OrDefault(train.bucket_cap_mb(), 25.0) * (1 << 20));
  plan.evaluate_every = train.has_evaluate_every() ? train.evaluate_every() : 1;
  plan.confusion_matrix = train.metrics().confusion_matrix();
  DP_ASSIGN_OR_RETURN(plan.early_stop, EarlyStopOf(train));
  if (spec.has_detect_within()) plan.detect_within = FromProto(spec.detect_within());
  plan.trace_file = train.trace();
  plan.weights_file = train.output().weights();
  plan.weights_of_best = train.output().best();
  plan.publish_weights = !train.output().has_publish() || train.output().publish();
  DP_ASSIGN_OR_RETURN(plan.checkpoint, CheckpointsOf(train.checkpoint()));
  plan.init = {.path = train.init().weights(),
               .drawn = {train.init().drawn().begin(), train.init().drawn().end()}};
  for (const v1::ResumeFrom& from : train.resume().from()) {
    plan.resume.push_back({from.path(), from.sha256()});
  }
  return plan;
}

}  // namespace dp::trainer
