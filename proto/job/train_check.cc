#include "proto/job/train_check.h"

#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/model/layer_fault.h"
#include "base/model/shape_check.h"
#include "proto/convert/time.h"
#include "proto/job/classifier_check.h"
#include "proto/job/data_check.h"
#include "proto/job/data_source.h"
#include "proto/job/evaluation_check.h"
#include "proto/job/field_check.h"
#include "proto/job/job_spec.h"
#include "proto/job/model_layers.h"
#include "proto/job/strategy_check.h"
#include "proto/job/update_check.h"

namespace dp {
namespace {

// With as many epochs, steps can still be counted in 64 bits.
constexpr int64_t kStepsPerEpochMax = std::numeric_limits<int32_t>::max();

// Checks the section `train` of a job.
class TrainCheck : private FieldCheck {
 public:
  TrainCheck(const v1::JobSpec& spec, const FieldOrigins& origins,
             const FormOfSamples& form_of_samples)
      : FieldCheck(origins), spec_(spec), form_of_samples_(form_of_samples) {}

  absl::Status Run() {
    CheckTrain(spec_.train());
    if (first().ok()) CheckModel(spec_.train());
    if (first().ok()) Take(CheckStrategy(spec_, origins()));
    return first();
  }

 private:
  void CheckTrain(const v1::TrainSpec& train) {
    Between("train.epochs", train.epochs(), 1, std::numeric_limits<int>::max());
    AtLeast("train.maxSteps", train.max_steps(), 0);
    Between("train.stepsPerEpoch", train.steps_per_epoch(), 0, kStepsPerEpochMax);
    CheckBatch(train);
    AtLeast("train.evaluateEvery", train.evaluate_every(), 0);
    if (!(train.bucket_cap_mb() > 0 && train.bucket_cap_mb() <= kBucketCapMbMax))
      Fail("train.bucketCapMb",
           Wrong("train.bucketCapMb", train.bucket_cap_mb(),
                 absl::StrCat("more than 0, at most ", static_cast<int64_t>(kBucketCapMbMax))));
    if (train.backend() == "nccl")
      Fail("train.backend",
           "train.backend is \"nccl\"; leave it out, as NCCL is taken where ranks compute on GPUs: "
           "say train.device: cuda to have them do so");
    OneOf("train.backend", train.backend(), {"auto", "gloo", "hierarchical", "shm"});
    if (!train.precision().empty())
      OneOf("train.precision", train.precision(), {"float32", "tf32", "bf16"});
    CheckDevice(train);
    OneOf("train.onIsolation", train.on_isolation(), {"stop", "continue"});
    if (first().ok()) Take(CheckDataSection(train.data(), origins()));
    Absolute("train.trace", train.trace());
    WeightsFile("train.output.weights", train.output().weights());
    WeightsFile("train.init.weights", train.init().weights());
    if (train.init().weights().empty() && !train.init().drawn().empty())
      Fail("train.init.drawn",
           "train.init.weights is missing, the file of the weights that are not drawn; without one "
           "leave train.init out");
    if (train.has_checkpoint()) CheckCheckpoint(train.checkpoint());
    if (train.has_resume() && train.resume().from().empty())
      Fail("train.resume",
           "train.resume.from is missing; leave train.resume out, and give --resume");
    for (const v1::ResumeFrom& from : train.resume().from()) {
      if (from.path().empty() || from.path().front() != '/')
        Fail("train.resume", Wrong("train.resume.from.path", absl::StrCat("\"", from.path(), "\""),
                                   "an absolute path; dpctl fills it in where --resume is given"));
      if (from.sha256().empty())
        Fail("train.resume",
             "train.resume.from.sha256 is missing, the hash of the checkpoint's manifest.json; "
             "dpctl fills it in where --resume is given");
    }
    Take(CheckUpdates(train, origins()));
    CheckLoss(train);
    if (first().ok()) Take(CheckEvaluations(train, origins()));
  }

  void WeightsFile(const std::string& path, const std::string& file) {
    if (absl::EndsWith(file, "/"))
      Fail(path, Wrong(path, Quoted(file),
                       "a file's path, as /models/weights.safetensors, not a directory's"));
    Absolute(path, file);
  }

  void CheckLoss(const v1::TrainSpec& train) {
    if (!train.has_loss()) return;
    const v1::LossSpec& loss = train.loss();
    const std::string path = "train.loss";
    if (loss.kind_case() == v1::LossSpec::KIND_NOT_SET)
      return Fail(path,
                  "train.loss is empty; give crossEntropy, mse, l1, bce or norm, or leave it out");
    const std::string smoothing = "train.loss.crossEntropy.labelSmoothing";
    const double share = loss.cross_entropy().label_smoothing();
    if (!(share >= 0 && share < 1))
      Fail(smoothing, Wrong(smoothing, share, "at least 0 and below 1"));
    if (loss.has_cross_entropy()) CheckWeights(loss.cross_entropy());
    if (loss.has_norm()) return;
    const bool targets = HasTargets(train.data());
    if (loss.has_cross_entropy() == targets)
      Fail(path, targets
                     ? "train.loss.crossEntropy compares with labels, and train.data has targets; "
                       "use mse, l1 or bce"
                     : "train.loss compares with targets, and train.data has labels; use "
                       "crossEntropy");
  }

  void CheckWeights(const v1::CrossEntropyLossSpec& loss) {
    const std::string path = "train.loss.crossEntropy.";
    if (loss.ignore_index() < 0)
      Fail(path + "ignoreIndex", Wrong(path + "ignoreIndex", loss.ignore_index(),
                                       "0 or more, as the labels of a data set are"));
    const std::string weights = path + "classWeights";
    for (int i = 0; i < loss.class_weights_size(); ++i)
      AtLeast(absl::StrCat(weights, "[", i, "]"), loss.class_weights(i), 0);
    const auto positive = [](double weight) { return weight > 0; };
    if (!loss.class_weights().empty() && !absl::c_any_of(loss.class_weights(), positive))
      Fail(weights, absl::StrCat(weights, " are all 0, so no sample counts; raise one"));
  }

  void CheckBatch(const v1::TrainSpec& train) {
    const std::string field =
        train.batch_size_per_rank() == 0 ? "train.globalBatchSize" : "train.batchSizePerRank";
    if (train.batch_size_per_rank() != 0) CheckBatchPerRank(train);
    const int64_t batch = GlobalBatchSize(spec_);
    AtLeast("train.globalBatchSize", batch, 1);
    const auto range = RanksOf(spec_);
    const int ranks = range ? range->max : spec_.ranks();
    if (batch < ranks)
      Fail("train.globalBatchSize",
           absl::StrCat("train.globalBatchSize is ", batch, ", less than one sample for each of ",
                        ranks, " ranks"));
    if (batch > std::numeric_limits<int>::max())
      Fail(field, absl::StrCat(field, " gives a step of ", batch, " samples; at most ",
                               std::numeric_limits<int>::max(), " are allowed"));
    if (!train.has_accumulate()) return;
    AtLeast("train.accumulate", train.accumulate(), 1);
    if (first().ok() && train.accumulate() > batch / ranks)
      Fail("train.accumulate",
           absl::StrCat("train.accumulate is ", train.accumulate(), ", and some rank takes only ",
                        batch / ranks, " samples of a step; lower it, or raise ", field));
  }

  void CheckBatchPerRank(const v1::TrainSpec& train) {
    const std::string path = "train.batchSizePerRank";
    AtLeast(path, train.batch_size_per_rank(), 1);
    if (train.global_batch_size() != 0)
      Fail(path, "train.batchSizePerRank excludes train.globalBatchSize; keep one");
    if (IsElastic(spec_))
      Fail(path,
           "train.batchSizePerRank would change the step with the number of ranks, which a range "
           "of train.nodes leaves open; give train.globalBatchSize instead");
  }

  void CheckDevice(const v1::TrainSpec& train) {
    OneOf("train.device", train.device(), {"auto", "cpu", "cuda"});
    if (ComputesOnGpusOnly(train) && train.device() == "cpu")
      Fail("train.precision",
           absl::StrCat("train.precision is ", Quoted(train.precision()),
                        ", which only GPUs compute with, and train.device cpu; leave one of them "
                        "out"));
    const bool prefers_gpus = PrefersGpus(train);
    const bool needs_gpus = train.device() == "cuda" || (prefers_gpus && train.device() == "auto");
    if (!needs_gpus) return;
    const std::string why =
        prefers_gpus ? absl::StrCat("train.precision ", train.precision()) : "train.device cuda";
    if (spec_.slots() == "cpu")
      Fail("slots",
           absl::StrCat("slots is \"cpu\", and ", why, " needs GPUs; leave one of them out"));
    if (BindsCpusOnly(train))
      Fail("train.backend",
           absl::StrCat("train.backend is ", Quoted(train.backend()),
                        ", which does not reach GPUs' memory; with ", why, " leave it out"));
  }

  void CheckCheckpoint(const v1::CheckpointSpec& checkpoint) {
    const std::string path = "train.checkpoint.";
    if (checkpoint.dir().empty())
      Fail(path + "dir", "train.checkpoint.dir is missing; give the directory of the checkpoints");
    Absolute(path + "dir", checkpoint.dir());
    AtLeast(path + "everySteps", checkpoint.every_steps(), 0);
    if ((checkpoint.every_steps() > 0) == checkpoint.has_every())
      Fail(path + "everySteps",
           absl::StrCat("train.checkpoint has ",
                        checkpoint.has_every() ? "both everySteps and every"
                                               : "neither everySteps, of 1 or more, nor every",
                        "; give one of them"));
    const absl::Duration every = FromProto(checkpoint.every());
    if (checkpoint.has_every() && (every < kCheckpointEveryMin || every > kCheckpointEveryMax))
      Fail(path + "every", Wrong(path + "every", every,
                                 absl::StrCat(absl::FormatDuration(kCheckpointEveryMin), " to ",
                                              absl::FormatDuration(kCheckpointEveryMax))));
    Between(path + "keep", checkpoint.keep(), 1, kCheckpointsKeptMax);
  }

  void CheckModel(const v1::TrainSpec& train) {
    const v1::ModelSpec& model = train.model();
    const std::string path = "train.model";
    if (!model.preset().empty() && model.layers_size() > 0)
      return Fail(path + ".preset", "train.model.preset excludes train.model.layers; keep one");
    if (model.has_plugin() && (!model.preset().empty() || model.layers_size() > 0))
      return Fail(path + ".plugin",
                  "train.model.plugin excludes train.model.preset and train.model.layers; keep "
                  "one, or write the plug-in as one of the layers");
    if (model.preset().empty() && model.layers_size() == 0 && !model.has_plugin())
      return Fail(path,
                  "train.model has no layers; give train.model.preset or train.model.layers, or a "
                  "model of your own by train.model.plugin");
    if (model.layers_size() > kLayersMax)
      return Fail(path + ".layers", absl::StrCat(path, ".layers has ", model.layers_size(),
                                                 " layers; at most ", kLayersMax, " are allowed"));
    auto layers = ModelLayers(model);
    if (!layers.ok())
      return Fail(PlaceOfUnknown(model), absl::StrCat(path,
                                                      model.has_plugin()       ? ".plugin: "
                                                      : model.preset().empty() ? "."
                                                                               : ".preset: ",
                                                      layers.status().message()));
    if (const std::optional<model::LayerFault> fault = model::FindFault(*layers))
      return Fail(PlaceOf(*fault, model), fault->what);
    const v1::DataSpec& data = train.data();
    if (HasPlugin(*layers)) return;  // only its code knows which shapes it gives: the ranks ask it
    absl::StatusOr<std::vector<model::CheckedLayer>> fits;
    if (IsText(data)) {
      fits = model::CheckLanguageModel(*layers, data.context(), data.vocabulary());
    } else if (std::optional<SampleForm> form = form_of_samples_(data)) {
      if (form->two_axes && TakesTwoAxes(model)) form->shape.erase(form->shape.begin());
      // The largest label need not be a class.
      const v1::CrossEntropyLossSpec& loss = train.loss().cross_entropy();
      if (loss.has_ignore_index() && form->classes == loss.ignore_index() + 1) form->classes = 0;
      if (data.classes() > 0) form->classes = data.classes();
      form->exactly = data.classes() > 0;
      fits = CheckFits(*layers, *form, train.loss().has_norm());
    } else {
      const absl::Status takes = CheckTakesNumbers(*layers, data.kind());
      if (takes.ok()) return;
      fits = takes;
    }
    if (!fits.ok()) return Fail(PlaceOfMisfit(model, fits.status()), fits.status().message());
    const absl::Status weights =
        CheckClassWeights(train.loss().cross_entropy().class_weights_size(), fits->back());
    if (!weights.ok()) Fail("train.loss.crossEntropy.classWeights", weights.message());
    Take(CheckMeasures(train, fits->back(), origins()));
  }

  static bool HasPlugin(const std::vector<model::LayerSpec>& layers) {
    return absl::c_any_of(layers, [](const model::LayerSpec& layer) {
      return std::holds_alternative<model::Plugin>(layer.kind);
    });
  }

  // The place of an unknown preset, or of the first layer that is none.
  static std::string PlaceOfUnknown(const v1::ModelSpec& model) {
    if (!model.preset().empty()) return "train.model.preset";
    if (model.has_plugin()) return "train.model.plugin.config";
    const auto unknown = absl::c_find_if(model.layers(), [](const v1::LayerSpec& layer) {
      v1::ModelSpec alone;
      *alone.add_layers() = layer;
      return !ModelLayers(alone).ok();
    });
    return absl::StrCat("train.model.layers[", unknown - model.layers().begin(), "]");
  }

  // A preset has no faults.
  static std::string PlaceOf(const model::LayerFault& fault, const v1::ModelSpec& model) {
    if (model.has_plugin()) return absl::StrCat("train.model.plugin.", fault.field);
    const v1::LayerSpec& layer = model.layers(static_cast<int>(fault.layer));
    const auto& reflection = *layer.GetReflection();
    const auto* kind =
        reflection.GetOneofFieldDescriptor(layer, layer.GetDescriptor()->FindOneofByName("kind"));
    const std::string path = absl::StrCat("train.model.layers[", fault.layer, "].");
    if (fault.field == "name" || fault.field == "input" || fault.field == "device")
      return path + fault.field;
    return absl::StrCat(path, kind->json_name(), ".", fault.field);
  }

  // Embedding, positions and attention take tokens; other samples have none.
  static absl::Status CheckTakesNumbers(const std::vector<model::LayerSpec>& layers,
                                        const std::string& data_kind) {
    for (size_t i = 0; i < layers.size(); ++i) {
      const model::LayerKind& kind = layers[i].kind;
      if (std::holds_alternative<model::Embedding>(kind) ||
          std::holds_alternative<model::Positions>(kind) ||
          std::holds_alternative<model::CausalAttention>(kind) ||
          std::holds_alternative<model::Attention>(kind))
        return absl::InvalidArgumentError(
            absl::StrCat("layer '", model::NameOf(layers[i], i), "' (", model::KindName(kind),
                         "): needs tokens, but train.data.kind is ", data_kind,
                         "; set train.data.kind to text or tokens, or leave the layer out"));
    }
    return absl::OkStatus();
  }

  // Points at the layer that the message names, if it is a layer of the file.
  static std::string PlaceOfMisfit(const v1::ModelSpec& model, const absl::Status& misfit) {
    for (int i = 0; i < model.layers_size(); ++i)
      if (absl::StrContains(misfit.message(), absl::StrCat("layer '", model.layers(i).name(), "'")))
        return absl::StrCat("train.model.layers[", i, "]");
    return "train.model";
  }

  const v1::JobSpec& spec_;
  const FormOfSamples& form_of_samples_;
};

}  // namespace

absl::Status CheckTrainSection(const v1::JobSpec& spec, const FieldOrigins& origins,
                               const FormOfSamples& form_of_samples) {
  return TrainCheck(spec, origins, form_of_samples).Run();
}

}  // namespace dp
