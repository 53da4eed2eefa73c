#include "worker/trainer/program/rank_device.h"

#include "absl/strings/str_cat.h"
#include "worker/engine/device/replicas/replicas.h"

namespace dp::trainer {

absl::StatusOr<std::unique_ptr<engine::Device>> OpenRankDevice(const Environment& environment,
                                                               const TrainingPlan& plan) {
  const auto open_cpu = [threads = plan.threads] { return engine::OpenCpu(threads); };
  if (plan.replicas > 1) return engine::OpenReplicas(plan.replicas, open_cpu);
  if (!environment.on_gpu) return open_cpu();
  auto device = engine::OpenCuda(0);
  if (device.ok()) return device;
  // Unavailable would mean that a peer was lost.
  return absl::FailedPreconditionError(
      absl::StrCat("the GPU cannot be used: ", device.status().message(),
                   "; 'dp-trainer-cuda --self-check' on this host says more"));
}

absl::Status WithMemoryRemedy(const absl::Status& status, const Environment& environment,
                              const TrainingPlan& plan, int samples) {
  if (!absl::IsResourceExhausted(status) || !environment.on_gpu) return status;
  const GpuCard& card = environment.card;
  const std::string memory =
      card.memory_bytes == 0 ? "" : absl::StrCat(" with ", card.memory_bytes >> 20, " MiB");
  const bool bf16 = plan.precision == engine::Precision::kBfloat16;
  return absl::ResourceExhaustedError(absl::StrCat(
      "train.globalBatchSize ", plan.global_batch_size, ", of which this rank takes ", samples,
      samples == 1 ? " sample" : " samples", plan.accumulate > 1 ? " at once" : " a step",
      ", is too much for the memory of ", card.name(), memory,
      ": lower it, or spread it over more ranks", samples > 1 ? ", or raise train.accumulate" : "",
      bf16 ? "" : ", or try train.precision bf16",
      TokensPerSample(plan) > 0 ? ", or lower train.data.context" : "", "; ", status.message()));
}

}  // namespace dp::trainer
