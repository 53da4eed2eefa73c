#include "proto/job/job_defaults.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/limits.h"
#include "base/model/layer_spec.h"
#include "proto/convert/time.h"
#include "proto/job/data_check.h"
#include "proto/job/data_defaults.h"
#include "proto/job/job_spec.h"
#include "proto/job/model_layers.h"

namespace dp {
namespace {

// The latest, and one to fall back to if the latest is damaged.
constexpr int kCheckpointsKept = 2;

// Steps between two published states of strategy ps, and by how many steps a rank may be ahead.
constexpr int kPublishEvery = 100;
constexpr int kMaxStaleness = 4;

// A step of the schedule leaves so much of the learning rate.
constexpr double kDecayFactor = 0.1;

// Evaluations that may pass without an improvement.
constexpr int kPatience = 3;

constexpr int kDevicesOfDataParallel = 2;

// Those of DiLoCo, but for shorter rounds: an epoch of a small training has few steps.
constexpr int kSyncEvery = 100;
constexpr double kOuterLearningRate = 0.7;
constexpr double kOuterMomentum = 0.9;

constexpr int kInfraRestarts = 10;
constexpr int kHangRestarts = 3;
constexpr int kStartupRestarts = 3;
constexpr absl::Duration kRestartWindow = absl::Hours(1);
constexpr absl::Duration kGrowAfter = absl::Minutes(10);

void FillLinear(v1::LinearSpec& linear) {
  if (!linear.has_bias()) linear.set_bias(true);
}

// The fields of one layer that the file gives.
using IsGiven = std::function<bool(absl::string_view field)>;

template <typename Convolution>
void FillConvolution(const IsGiven& given, Convolution& conv) {
  if (!given("stride")) conv.set_stride(1);
  if (!conv.has_bias()) conv.set_bias(true);
  if (!given("groups")) conv.set_groups(1);
  if (!given("dilation")) conv.set_dilation(1);
}

template <typename Pool>
void FillPool(const IsGiven& given, Pool& pool) {
  if (!given("stride")) pool.set_stride(pool.kernel());
}

void FillAdaptivePool(const IsGiven& given, v1::AdaptiveAvgPool2dSpec& pool) {
  if (!given("rows")) pool.set_rows(1);
  if (!given("columns")) pool.set_columns(1);
}

void FillBatchNorm(v1::BatchNormSpec& norm) {
  if (!norm.has_epsilon()) norm.set_epsilon(model::BatchNorm().epsilon);
  if (!norm.has_momentum()) norm.set_momentum(model::BatchNorm().momentum);
}

void FillRmsNorm(v1::RmsNormSpec& norm) {
  if (!norm.has_epsilon()) norm.set_epsilon(model::RmsNorm().epsilon);
}

void FillLayer(const FieldOrigins& origins, const std::string& path, v1::LayerSpec& layer) {
  const auto of = [&](absl::string_view kind) {
    return [&origins, of_kind = absl::StrCat(path, ".", kind, ".")](absl::string_view field) {
      return origins.Given(absl::StrCat(of_kind, field));
    };
  };
  if (layer.has_linear()) FillLinear(*layer.mutable_linear());
  if (layer.has_conv2d()) FillConvolution(of("conv2d"), *layer.mutable_conv2d());
  if (layer.has_conv1d()) FillConvolution(of("conv1d"), *layer.mutable_conv1d());
  if (layer.has_max_pool2d()) FillPool(of("maxPool2d"), *layer.mutable_max_pool2d());
  if (layer.has_avg_pool2d()) FillPool(of("avgPool2d"), *layer.mutable_avg_pool2d());
  if (layer.has_adaptive_avg_pool2d())
    FillAdaptivePool(of("adaptiveAvgPool2d"), *layer.mutable_adaptive_avg_pool2d());
  if (layer.has_batch_norm()) FillBatchNorm(*layer.mutable_batch_norm());
  if (layer.has_rms_norm()) FillRmsNorm(*layer.mutable_rms_norm());
  if (layer.has_gelu() && layer.gelu().approximate().empty())
    layer.mutable_gelu()->set_approximate("tanh");
}

// A default name contains the layer's kind and position, so names come last.
void FillNames(v1::ModelSpec& model) {
  const auto layers = ModelLayers(model);
  if (!layers.ok() || !model.preset().empty() || model.has_plugin()) return;
  for (int i = 0; i < model.layers_size(); ++i) {
    v1::LayerSpec& layer = *model.mutable_layers(i);
    if (layer.name().empty()) layer.set_name(model::DefaultName((*layers)[i].kind, i));
  }
}

void FillModel(const FieldOrigins& origins, v1::ModelSpec& model) {
  for (int i = 0; i < model.layers_size(); ++i) {
    FillLayer(origins, absl::StrCat("train.model.layers[", i, "]"), *model.mutable_layers(i));
  }
  FillNames(model);
}

void FillLocalSgd(const FieldOrigins& origins, v1::LocalSgdStrategySpec& local) {
  if (!origins.Given("train.strategy.localSgd.syncEvery")) local.set_sync_every(kSyncEvery);
  if (!local.has_outer_learning_rate()) local.set_outer_learning_rate(kOuterLearningRate);
  if (!local.has_outer_momentum()) local.set_outer_momentum(kOuterMomentum);
  if (!local.has_nesterov()) local.set_nesterov(true);
}

// If only one of the two is given, the other is 1.
template <typename Program>
void FillShape(Program& program) {
  if (program.nodes().empty() && program.nproc_per_node().empty()) return;
  if (program.nodes().empty()) program.set_nodes("1");
  if (program.nproc_per_node().empty()) program.set_nproc_per_node("1");
}

void FillSamples(const FieldOrigins& origins, v1::DataSpec& data) {
  if (data.has_csv() && data.csv().delimiter().empty()) data.mutable_csv()->set_delimiter(",");
  if (data.kind() == "imageFolder" && data.channels() == 0) data.set_channels(3);
  if (data.augment().has_resized_crop() && !origins.Given("train.data.augment.resizedCrop.areaMin"))
    data.mutable_augment()->mutable_resized_crop()->set_area_min(kCropAreaMin);
  if (data.has_synthetic() && !origins.Given("train.data.synthetic.testSamples"))
    data.mutable_synthetic()->set_test_samples(DefaultTestSamples(data.synthetic()));
}

void FillData(const FieldOrigins& origins, v1::DataSpec& data) {
  if (!origins.Given("train.data.kind")) data.set_kind("images");
  if (!data.has_shuffle()) data.set_shuffle(true);
  if (!IsText(data)) {
    if (data.mean().empty()) data.add_mean(0);
    if (data.std().empty()) data.add_std(1);
    return FillSamples(origins, data);
  }
  if (origins.Given("train.data.vocabulary")) return;
  data.set_vocabulary(DefaultVocabulary(data));
}

void FillAdamW(const FieldOrigins& origins, v1::AdamWSpec& adamw) {
  const std::string path = "train.optimizer.adamw.";
  if (!adamw.has_beta1()) adamw.set_beta1(0.9);
  if (!adamw.has_beta2()) adamw.set_beta2(0.999);
  if (!origins.Given(path + "epsilon")) adamw.set_epsilon(1e-8);
  if (!adamw.has_weight_decay()) adamw.set_weight_decay(0.01);
  if (!origins.Given(path + "decay")) adamw.set_decay("matrices");
}

void FillAdam(const FieldOrigins& origins, v1::AdamSpec& adam) {
  if (!adam.has_beta1()) adam.set_beta1(0.9);
  if (!adam.has_beta2()) adam.set_beta2(0.999);
  if (!origins.Given("train.optimizer.adam.epsilon")) adam.set_epsilon(1e-8);
}

void FillOptimizer(const FieldOrigins& origins, v1::OptimizerSpec& optimizer) {
  if (optimizer.has_adamw()) FillAdamW(origins, *optimizer.mutable_adamw());
  if (optimizer.has_adam()) FillAdam(origins, *optimizer.mutable_adam());
}

void FillSchedule(v1::ScheduleSpec& schedule) {
  if (schedule.has_step() && !schedule.step().has_factor())
    schedule.mutable_step()->set_factor(kDecayFactor);
  if (schedule.has_multi_step() && !schedule.multi_step().has_factor())
    schedule.mutable_multi_step()->set_factor(kDecayFactor);
}

void FillEarlyStop(const FieldOrigins& origins, v1::EarlyStopSpec& stop) {
  if (!origins.Given("train.earlyStop.metric")) stop.set_metric("loss");
  if (!origins.Given("train.earlyStop.patience")) stop.set_patience(kPatience);
}

void FillCheckpoint(const FieldOrigins& origins, v1::CheckpointSpec& checkpoint) {
  if (!origins.Given("train.checkpoint.keep")) checkpoint.set_keep(kCheckpointsKept);
  if (checkpoint.has_best() && !origins.Given("train.checkpoint.best.metric"))
    checkpoint.mutable_best()->set_metric("loss");
}

bool HasSeveralDevices(const v1::StrategySpec& strategy) {
  return strategy.has_dp() || strategy.has_mp();
}

// Precisions that only GPUs have imply device "cuda"; several devices of a rank are CPUs.
void FillDevice(const FieldOrigins& origins, v1::TrainSpec& train) {
  if (!origins.Given("train.device"))
    train.set_device(HasSeveralDevices(train.strategy()) ? "cpu" : "auto");
  if (PrefersGpus(train) && train.device() == "auto") train.set_device("cuda");
}

void FillPs(const FieldOrigins& origins, v1::PsStrategySpec& ps) {
  if (!origins.Given("train.strategy.ps.mode")) ps.set_mode("sync");
  if (!origins.Given("train.strategy.ps.publishEvery")) ps.set_publish_every(kPublishEvery);
  if (ps.mode() == "bounded" && !ps.has_max_staleness()) ps.set_max_staleness(kMaxStaleness);
}

void FillTrain(const FieldOrigins& origins, v1::TrainSpec& train) {
  FillShape(train);
  if (!origins.Given("train.epochs")) train.set_epochs(1);
  if (!origins.Given("train.globalBatchSize") && train.batch_size_per_rank() == 0)
    train.set_global_batch_size(128);
  if (!origins.Given("train.backend")) train.set_backend("auto");
  if (!origins.Given("train.precision")) train.set_precision("float32");
  FillDevice(origins, train);
  if (!train.has_deterministic()) train.set_deterministic(true);
  if (!origins.Given("train.onIsolation")) train.set_on_isolation("continue");
  if (!origins.Given("train.bucketCapMb")) train.set_bucket_cap_mb(25);
  if (!train.has_evaluate_every()) train.set_evaluate_every(1);
  FillData(origins, *train.mutable_data());
  if (train.has_optimizer()) FillOptimizer(origins, *train.mutable_optimizer());
  if (train.has_schedule()) FillSchedule(*train.mutable_schedule());
  if (train.has_early_stop()) FillEarlyStop(origins, *train.mutable_early_stop());
  if (train.has_ema() && !train.ema().has_evaluate()) train.mutable_ema()->set_evaluate(true);
  if (train.has_checkpoint()) FillCheckpoint(origins, *train.mutable_checkpoint());
  if (train.strategy().has_dp() && !origins.Given("train.strategy.dp.devices"))
    train.mutable_strategy()->mutable_dp()->set_devices(kDevicesOfDataParallel);
  if (train.strategy().has_local_sgd())
    FillLocalSgd(origins, *train.mutable_strategy()->mutable_local_sgd());
  if (train.strategy().has_ps()) FillPs(origins, *train.mutable_strategy()->mutable_ps());
  if (train.has_model()) FillModel(origins, *train.mutable_model());
}

void FillCommand(const FieldOrigins& origins, v1::CommandSpec& command) {
  FillShape(command);
  if (!origins.Given("command.contract")) command.set_contract("torchrun");
  if (!origins.Given("command.onIsolation")) command.set_on_isolation("stop");
}

// Whether every generation has exactly one rank. False while nprocPerNode is a word (gpu, cpu,
// auto): it may stand for several.
bool HasOneRank(const v1::JobSpec& spec) {
  if (const auto ranks = RanksOf(spec); ranks.has_value()) return ranks->max == 1;
  return RanksPerNodeField(spec).empty() && NodesField(spec).empty() && spec.ranks() == 1;
}

// Processes that a single rank starts itself (mp.spawn) meet at its own store, as without a
// launcher. Ranks of contracts without a store meet at whatever the program serves.
std::string DefaultStore(const v1::JobSpec& spec) {
  return HasOneRank(spec) || !MeetsAtStore(spec.command()) ? "program" : "relay";
}

// restart.maxRestarts and command.maxRestarts are the same (docs/failures.md).
void FillRestart(v1::JobSpec& spec) {
  v1::RestartSpec& restart = *spec.mutable_restart();
  if (!restart.has_max_restarts()) restart.set_max_restarts(spec.command().max_restarts());
  if (spec.has_command() && spec.command().max_restarts() == 0)
    spec.mutable_command()->set_max_restarts(restart.max_restarts());
  if (!restart.has_infra()) restart.set_infra(kInfraRestarts);
  if (!restart.has_hang()) restart.set_hang(kHangRestarts);
  if (!restart.has_startup()) restart.set_startup(kStartupRestarts);
  if (!restart.has_window()) *restart.mutable_window() = ToProto(kRestartWindow);
}

// Elastic training with checkpoints grows.
void FillGrowAfter(v1::JobSpec& spec) {
  if (spec.has_grow_after() || !IsElastic(spec) || !spec.train().has_checkpoint()) return;
  *spec.mutable_grow_after() = ToProto(kGrowAfter);
}

}  // namespace

void FillDefaults(const FieldOrigins& origins, v1::JobSpec& spec) {
  if (!origins.Given("apiVersion")) spec.set_api_version("dp/v1");
  if (!origins.Given("kind")) spec.set_kind("Job");
  if (!origins.Given("ranks")) spec.set_ranks(1);
  if (!origins.Given("threadsPerRank")) spec.set_threads_per_rank(spec.has_command() ? 0 : 1);
  if (!origins.Given("queue")) spec.set_queue("default");
  if (!origins.Given("slots")) spec.set_slots("any");
  if (!spec.has_grace()) *spec.mutable_grace() = ToProto(kGraceDefault);
  if (!spec.has_detect_within()) *spec.mutable_detect_within() = ToProto(kDetectWithinDefault);
  if (spec.has_train()) FillTrain(origins, *spec.mutable_train());
  if (spec.has_command()) FillCommand(origins, *spec.mutable_command());
  const std::optional<RankRange> ranks = RanksOf(spec);
  if (ranks && !origins.Given("ranks")) spec.set_ranks(ranks->min);
  if (spec.has_command() && !origins.Given("command.store"))
    spec.mutable_command()->set_store(DefaultStore(spec));
  FillRestart(spec);
  FillGrowAfter(spec);
}

}  // namespace dp
