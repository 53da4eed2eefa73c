#include "client/dpctl/run/local_gpus.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace dp::ctl {
namespace {

constexpr char kOnCpus[] = "; to train on CPUs leave out train.device, train.precision and slots";

// The field that makes the job need GPUs; empty: it needs none.
std::string GpuField(const v1::JobSpec& spec) {
  if (TrainsOnGpus(spec)) return "train.device: cuda";
  return spec.slots() == "gpu" ? "slots: gpu" : "";
}

std::string Remedy(const v1::JobSpec& spec) {
  return spec.has_train() ? kOnCpus : "; leave out slots";
}

}  // namespace

bool TrainsOnGpus(const v1::JobSpec& spec) {
  return spec.has_train() && spec.train().device() == "cuda";
}

absl::Status CheckLocalGpus(const Machine& machine, const v1::JobSpec& spec, int workers) {
  const std::string field = GpuField(spec);
  if (field.empty()) return absl::OkStatus();
  const LocalGpus gpus = machine.gpus();
  const int ranks = spec.ranks();
  if (gpus.count < ranks) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the job needs ", ranks, ranks == 1 ? " GPU (" : " GPUs (", field,
        "), and this machine has ", gpus.count, " that ranks may use",
        gpus.why_not.empty() ? "" : absl::StrCat(" (", gpus.why_not, ")"), Remedy(spec)));
  }
  if (workers > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("the job needs GPUs (", field, "), and ", workers,
                     " workers on one machine would give out the same ones twice; start one, with "
                     "--workers 1 and without nodes"));
  }
  return absl::OkStatus();
}

absl::Status CheckLocalTrainer(const v1::ListWorkersResponse& workers) {
  for (const v1::Worker& worker : workers.workers()) {
    if (worker.trains_on_gpus()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("the job trains on GPUs, and no trainer can do so on this machine: ",
                     worker.no_gpu_trainer(), kOnCpus));
  }
  return absl::OkStatus();
}

}  // namespace dp::ctl
