#include "worker/trainer/program/open_group.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/engine/collectives/gloo/gloo_group.h"
#include "worker/engine/collectives/local/local_group.h"
#include "worker/engine/collectives/nccl/nccl_group.h"

namespace dp::trainer {
namespace {

// More steps than a step program has in flight.
constexpr size_t kStepsWaitingMax = 8;

absl::Status CheckBackend(const std::string& backend, bool on_gpu) {
  const std::string name = absl::AsciiStrToLower(backend);
  if (name == "auto" || name == (on_gpu ? "nccl" : "gloo")) return absl::OkStatus();
  if (name == "nccl") {
    return absl::UnimplementedError(
        "train.backend: nccl binds GPUs, and this trainer computes on CPUs; use auto or gloo");
  }
  if (name == "gloo") {
    return absl::UnimplementedError(
        "train.backend: gloo binds CPUs, and this trainer computes on a GPU; use auto");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("train.backend: '", backend, "' is unknown; use auto or gloo"));
}

absl::StatusOr<OpenedGroup> OpenNccl(Store& store, const Environment& environment,
                                     const Timeouts& timeouts, const RankModel& model) {
  OpenedGroup opened{.nccl = {}, .group = {}, .backend = "nccl"};
  absl::StatusOr<std::unique_ptr<engine::NcclApi>> nccl = engine::LoadNccl();
  if (!nccl.ok()) return WithoutNccl(nccl.status());
  opened.nccl = *std::move(nccl);
  engine::NcclOptions options;
  options.group.timeout = timeouts.collective;
  options.connect_timeout = timeouts.store;
  options.compute_stream = model.device->stream();
  options.operations_max = NcclOperationsOf(model);
  DP_ASSIGN_OR_RETURN(opened.group, engine::ConnectNccl(*opened.nccl, store, environment.rank,
                                                        environment.world_size, options));
  return opened;
}

}  // namespace

absl::StatusOr<OpenedGroup> OpenGroup(const std::string& backend, Store& store,
                                      const Environment& environment, const Timeouts& timeouts,
                                      const RankModel& model) {
  DP_RETURN_IF_ERROR(CheckBackend(backend, environment.on_gpu));
  const engine::GroupOptions options{.timeout = timeouts.collective};
  if (environment.world_size == 1) {
    return OpenedGroup{{}, std::move(engine::MakeLocalGroups(1, options)[0]), "local"};
  }
  if (environment.on_gpu) return OpenNccl(store, environment, timeouts, model);
  DP_ASSIGN_OR_RETURN(std::unique_ptr<engine::Group> group,
                      engine::ConnectGloo(store, environment.rank, environment.world_size,
                                          {.group = options,
                                           .connect_timeout = timeouts.store,
                                           .address = environment.address,
                                           .interface = environment.gloo_interface}));
  return OpenedGroup{{}, std::move(group), "gloo"};
}

size_t NcclOperationsOf(const RankModel& model) {
  return engine::kNcclOperationsMax + kStepsWaitingMax * model.averaged.parameters.size();
}

absl::Status WithoutNccl(const absl::Status& not_loaded) {
  if (!absl::IsUnavailable(not_loaded)) return not_loaded;
  return absl::FailedPreconditionError(
      absl::StrCat("NCCL cannot be used: ", not_loaded.message(),
                   "; 'dp-trainer-cuda --self-check' on this host says more"));
}

}  // namespace dp::trainer
