#include "worker/trainer/checkpoint/checkpoint_fit.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "worker/engine/device/device.h"

namespace dp::trainer {
namespace {

std::string Describe(const v1::ManifestTensor& tensor) {
  return absl::StrCat(tensor.name(), " ", absl::StrJoin(tensor.shape(), "x"));
}

absl::Status Same(absl::string_view what, const absl::AlphaNum& checkpoint,
                  const absl::AlphaNum& now) {
  if (checkpoint.Piece() == now.Piece()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the checkpoint was made with ", what, " ",
                                                    checkpoint, ", and this job has ", now));
}

absl::Status SameTensors(const v1::CheckpointManifest& checkpoint,
                         const v1::CheckpointManifest& now) {
  DP_RETURN_IF_ERROR(Same("a number of tensors of", checkpoint.tensors_size(), now.tensors_size()));
  for (int i = 0; i < now.tensors_size(); ++i) {
    DP_RETURN_IF_ERROR(
        Same("the tensor", Describe(checkpoint.tensors(i)), Describe(now.tensors(i))));
  }
  return absl::OkStatus();
}

// Earlier releases had one optimizer and did not write its name.
std::string OptimizerOf(const v1::CheckpointManifest& manifest) {
  return manifest.optimizer().empty() ? "sgd" : manifest.optimizer();
}

// Strategies that keep the ranks alike save the same arrays.
absl::string_view StrategyOf(const v1::CheckpointManifest& manifest) {
  return manifest.local_sgd() ? "localSgd" : "ddp or one that is not localSgd";
}

// Hashes are shortened, as people compare them by their beginnings.
std::string PluginsOf(const v1::CheckpointManifest& manifest) {
  constexpr size_t kHashShown = 12;
  return absl::StrJoin(manifest.plugins(), ", ",
                       [](std::string* out, const v1::ManifestPlugin& plugin) {
                         absl::StrAppend(out, plugin.library(), " of SHA-256 ",
                                         plugin.sha256().substr(0, kHashShown), "...");
                       });
}

}  // namespace

absl::Status CheckFits(const v1::CheckpointManifest& checkpoint,
                       const v1::CheckpointManifest& now) {
  DP_RETURN_IF_ERROR(SameTensors(checkpoint, now));
  DP_RETURN_IF_ERROR(Same("train.optimizer", OptimizerOf(checkpoint), OptimizerOf(now)));
  DP_RETURN_IF_ERROR(Same("train.seed", checkpoint.seed(), now.seed()));
  DP_RETURN_IF_ERROR(Same("training samples:", checkpoint.samples(), now.samples()));
  DP_RETURN_IF_ERROR(
      Same("train.globalBatchSize", checkpoint.global_batch_size(), now.global_batch_size()));
  DP_RETURN_IF_ERROR(
      Same("train.stepsPerEpoch", checkpoint.steps_per_epoch(), now.steps_per_epoch()));
  DP_RETURN_IF_ERROR(Same("train.data.shuffle", checkpoint.shuffle(), now.shuffle()));
  DP_RETURN_IF_ERROR(Same("train.data.dropLast", checkpoint.drop_last(), now.drop_last()));
  DP_RETURN_IF_ERROR(Same("train.strategy", StrategyOf(checkpoint), StrategyOf(now)));
  if (now.ema() && !checkpoint.ema())
    return absl::FailedPreconditionError(
        "the checkpoint has no average of the weights, and this job has train.ema; leave train.ema "
        "out, or begin a new training");
  // Releases without schedules wrote none.
  if (!checkpoint.schedule().empty()) {
    DP_RETURN_IF_ERROR(Same("train.schedule", checkpoint.schedule(), now.schedule()));
  }
  if (SumOrderOf(checkpoint)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the checkpoint's training sums gradients in the order \"", checkpoint.sum_order(),
      "\", which this release does not know; resume it with the "
      "release that wrote it"));
}

std::optional<engine::ReduceOrder> SumOrderOf(const v1::CheckpointManifest& checkpoint) {
  if (checkpoint.sum_order().empty()) return engine::ReduceOrder::kRank;
  return engine::ParseReduceOrder(checkpoint.sum_order());
}

std::string OtherBits(const v1::CheckpointManifest& checkpoint, const v1::CheckpointManifest& now) {
  std::vector<std::string> differences;
  const auto compare = [&](absl::string_view what, const absl::AlphaNum& was,
                           const absl::AlphaNum& is) {
    const bool unknown = was.Piece().empty() || is.Piece().empty();
    if (!unknown && was.Piece() != is.Piece()) {
      differences.push_back(absl::StrCat(what, " was ", was, " and is ", is));
    }
  };
  compare("ranks", checkpoint.world_size(), now.world_size());
  const int accumulated = std::max(1, checkpoint.accumulate());
  compare("train.accumulate", accumulated, std::max(1, now.accumulate()));
  compare("train.strategy.dp.devices", std::max(1, checkpoint.devices()),
          std::max(1, now.devices()));
  compare("the device", checkpoint.device(), now.device());
  compare("train.precision", checkpoint.precision(), now.precision());
  const bool on_cpu = !now.instruction_set().empty();
  if (on_cpu) compare("threadsPerRank", checkpoint.threads_per_rank(), now.threads_per_rank());
  compare("the instruction set", checkpoint.instruction_set(), now.instruction_set());
  compare("the plug-in", PluginsOf(checkpoint), PluginsOf(now));
  return absl::StrJoin(differences, "; ");
}

v1::CheckpointManifest ManifestOf(const TrainingPlan& plan, const Environment& environment,
                                  const engine::ParameterLayout& layout, int64_t samples,
                                  const std::string& backend) {
  v1::CheckpointManifest manifest;
  manifest.set_job(environment.job.value());
  manifest.set_generation(environment.generation.value());
  manifest.set_seed(plan.seed);
  manifest.set_samples(samples);
  manifest.set_global_batch_size(plan.global_batch_size);
  manifest.set_shuffle(plan.shuffle);
  manifest.set_drop_last(plan.drop_last);
  manifest.set_steps_per_epoch(plan.steps_per_epoch);
  manifest.set_ema(plan.average_decay > 0);
  manifest.set_local_sgd(plan.local_sgd.has_value());
  manifest.set_optimizer(OptimizerName(plan));
  manifest.set_schedule(NameOf(plan.schedule));
  for (const engine::Parameter& parameter : layout.parameters) {
    v1::ManifestTensor* tensor = manifest.add_tensors();
    tensor->set_name(parameter.name);
    tensor->mutable_shape()->Add(parameter.shape.begin(), parameter.shape.end());
  }
  for (const PluginFile& plugin : plan.plugins) {
    v1::ManifestPlugin* of_file = manifest.add_plugins();
    of_file->set_library(plugin.library);
    of_file->set_sha256(plugin.sha256);
  }
  manifest.set_world_size(environment.world_size);
  manifest.set_accumulate(plan.accumulate);
  manifest.set_devices(plan.replicas);
  manifest.set_threads_per_rank(plan.threads);
  manifest.set_bucket_cap_mb(static_cast<double>(plan.bucket_bytes_max) / (1 << 20));
  manifest.set_backend(backend);
  if (!environment.on_gpu) manifest.set_instruction_set(engine::CpuInstructionSet());
  manifest.set_precision(NameOf(plan.precision));
  manifest.set_device(environment.device());
  return manifest;
}

}  // namespace dp::trainer
