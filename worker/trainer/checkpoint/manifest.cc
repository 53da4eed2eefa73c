#include "worker/trainer/checkpoint/manifest.h"

#include "worker/engine/device/device.h"

namespace dp::trainer {

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
  manifest.set_optimizer(std::holds_alternative<engine::AdamWOptions>(plan.optimizer) ? "adamw"
                                                                                      : "sgd");
  for (const engine::Parameter& parameter : layout.parameters) {
    v1::ManifestTensor* tensor = manifest.add_tensors();
    tensor->set_name(parameter.name);
    tensor->mutable_shape()->Add(parameter.shape.begin(), parameter.shape.end());
  }
  manifest.set_world_size(environment.world_size);
  manifest.set_threads_per_rank(plan.threads);
  manifest.set_bucket_cap_mb(static_cast<double>(plan.bucket_bytes_max) / (1 << 20));
  manifest.set_backend(backend);
  if (!environment.on_gpu) manifest.set_instruction_set(engine::CpuInstructionSet());
  manifest.set_precision(NameOf(plan.precision));
  manifest.set_device(environment.device());
  return manifest;
}

}  // namespace dp::trainer
