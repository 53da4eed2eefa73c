#include "client/job/job_defaults.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/limits.h"
#include "base/model/layer_spec.h"
#include "client/job/model_layers.h"
#include "proto/convert/elastic.h"
#include "proto/convert/restart_defaults.h"
#include "proto/convert/store_defaults.h"
#include "proto/convert/time.h"

namespace dp::client {
namespace {

// The latest, and one to fall back to if the latest is damaged.
constexpr int kCheckpointsKept = 2;

// GPT-2's tokens, and the values of a byte.
constexpr int kTokensVocabulary = 50257;
constexpr int kTextVocabulary = 256;

void FillLinear(v1::LinearSpec& linear) {
  if (!linear.has_bias()) linear.set_bias(true);
}

void FillConv2d(v1::Conv2dSpec& conv, bool stride_given) {
  if (!stride_given) conv.set_stride(1);
  if (!conv.has_bias()) conv.set_bias(true);
}

// A default name contains the layer's kind and position, so names come last.
void FillNames(v1::ModelSpec& model) {
  const auto layers = ModelLayers(model);
  if (!layers.ok() || !model.preset().empty()) return;
  for (int i = 0; i < model.layers_size(); ++i) {
    v1::LayerSpec& layer = *model.mutable_layers(i);
    if (layer.name().empty()) layer.set_name(absl::StrCat(model::KindName((*layers)[i].kind), i));
  }
}

void FillModel(const FieldSource& source, v1::ModelSpec& model) {
  for (int i = 0; i < model.layers_size(); ++i) {
    v1::LayerSpec& layer = *model.mutable_layers(i);
    const std::string path = absl::StrCat("train.model.layers[", i, "]");
    if (layer.has_linear()) FillLinear(*layer.mutable_linear());
    if (layer.has_conv2d())
      FillConv2d(*layer.mutable_conv2d(), source.Given(absl::StrCat(path, ".conv2d.stride")));
    if (layer.has_max_pool2d() && !source.Given(absl::StrCat(path, ".maxPool2d.stride")))
      layer.mutable_max_pool2d()->set_stride(layer.max_pool2d().kernel());
  }
  FillNames(model);
}

// If only one of the two is given, the other is 1.
template <typename Program>
void FillShape(Program& program) {
  if (program.nodes().empty() && program.nproc_per_node().empty()) return;
  if (program.nodes().empty()) program.set_nodes("1");
  if (program.nproc_per_node().empty()) program.set_nproc_per_node("1");
}

void FillData(const FieldSource& source, v1::DataSpec& data) {
  if (!source.Given("train.data.kind")) data.set_kind("images");
  if (!data.has_shuffle()) data.set_shuffle(true);
  if (data.kind() == "images" && !data.has_std()) data.set_std(1);
  if (data.kind() == "images" || source.Given("train.data.vocabulary")) return;
  data.set_vocabulary(data.kind() == "tokens" ? kTokensVocabulary : kTextVocabulary);
}

void FillAdamW(const FieldSource& source, v1::AdamWSpec& adamw) {
  const std::string path = "train.optimizer.adamw.";
  if (!adamw.has_beta1()) adamw.set_beta1(0.9);
  if (!adamw.has_beta2()) adamw.set_beta2(0.999);
  if (!source.Given(path + "epsilon")) adamw.set_epsilon(1e-8);
  if (!adamw.has_weight_decay()) adamw.set_weight_decay(0.01);
  if (!source.Given(path + "decay")) adamw.set_decay("matrices");
}

// Precisions that only GPUs have imply device "cuda".
void FillDevice(const FieldSource& source, v1::TrainSpec& train) {
  if (!source.Given("train.device")) train.set_device("auto");
  const bool of_gpus = train.precision() == "bf16" || train.precision() == "tf32";
  if (of_gpus && train.device() == "auto") train.set_device("cuda");
}

void FillTrain(const FieldSource& source, v1::TrainSpec& train) {
  FillShape(train);
  if (!source.Given("train.epochs")) train.set_epochs(1);
  if (!source.Given("train.globalBatchSize")) train.set_global_batch_size(128);
  if (!source.Given("train.backend")) train.set_backend("auto");
  if (!source.Given("train.precision")) train.set_precision("float32");
  FillDevice(source, train);
  if (!source.Given("train.onIsolation")) train.set_on_isolation("continue");
  if (!source.Given("train.bucketCapMb")) train.set_bucket_cap_mb(25);
  if (!train.has_evaluate_every()) train.set_evaluate_every(1);
  FillData(source, *train.mutable_data());
  if (train.optimizer().has_adamw()) FillAdamW(source, *train.mutable_optimizer()->mutable_adamw());
  if (train.has_checkpoint() && !source.Given("train.checkpoint.keep"))
    train.mutable_checkpoint()->set_keep(kCheckpointsKept);
  if (train.has_model()) FillModel(source, *train.mutable_model());
}

void FillCommand(const FieldSource& source, v1::CommandSpec& command) {
  FillShape(command);
  if (!source.Given("command.contract")) command.set_contract("torchrun");
  if (!source.Given("command.onIsolation")) command.set_on_isolation("stop");
}

}  // namespace

void FillDefaults(JobFile& job) {
  v1::JobSpec& spec = job.spec;
  if (!job.source.Given("ranks")) spec.set_ranks(1);
  if (!job.source.Given("threadsPerRank")) spec.set_threads_per_rank(spec.has_command() ? 0 : 1);
  if (!job.source.Given("queue")) spec.set_queue("default");
  if (!job.source.Given("slots")) spec.set_slots("any");
  if (!spec.has_grace()) *spec.mutable_grace() = ToProto(kGraceDefault);
  if (!spec.has_detect_within()) *spec.mutable_detect_within() = ToProto(kDetectWithinDefault);
  if (spec.has_train()) FillTrain(job.source, *spec.mutable_train());
  if (spec.has_command()) FillCommand(job.source, *spec.mutable_command());
  const std::optional<RankRange> ranks = RanksOf(spec);
  if (ranks && !job.source.Given("ranks")) spec.set_ranks(ranks->min);
  if (spec.has_command() && !job.source.Given("command.store"))
    spec.mutable_command()->set_store(DefaultStore(spec));
  FillRestart(spec);
  FillGrowAfter(spec);
}

}  // namespace dp::client
