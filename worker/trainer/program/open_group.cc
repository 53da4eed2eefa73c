#include "worker/trainer/program/open_group.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/program/log.h"
#include "base/status.h"
#include "worker/engine/collectives/gloo/gloo_group.h"
#include "worker/engine/collectives/hierarchical/hierarchical_group.h"
#include "worker/engine/collectives/local/local_group.h"
#include "worker/engine/collectives/nccl/nccl_group.h"
#include "worker/engine/collectives/shm/shm_group.h"

namespace dp::trainer {
namespace {

// More steps than a step program has in flight.
constexpr size_t kStepsWaitingMax = 8;

absl::Status CheckBackend(const std::string& name, bool on_gpu) {
  const bool for_cpus = name == "gloo" || name == "shm" || name == "hierarchical";
  if (name == "auto" || (on_gpu ? name == "nccl" : for_cpus)) return absl::OkStatus();
  if (name == "nccl") {
    return absl::UnimplementedError(
        "train.backend: nccl binds GPUs, and this trainer computes on CPUs; use auto, gloo, "
        "hierarchical or shm");
  }
  if (for_cpus) {
    return absl::UnimplementedError(absl::StrCat(
        "train.backend: ", name, " binds CPUs, and this trainer computes on a GPU; use auto"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("train.backend: '", name, "' is unknown; use auto, gloo, hierarchical or shm"));
}

engine::GroupOptions GroupOf(const Environment& environment, const Timeouts& timeouts) {
  return {.timeout = timeouts.collective, .on_left_behind = [rank = environment.rank] {
            Log(Severity::kWarning, "group_left_behind",
                {{"rank", rank}, {"reason", "a call of Gloo does not return"}});
          }};
}

// A worker stands for a host, as it does where ranks are placed.
absl::StatusOr<OpenedGroup> OpenOnHosts(const BackendChoice& choice, Store& store,
                                        const Environment& environment, const Timeouts& timeouts) {
  DP_ASSIGN_OR_RETURN(
      engine::ConnectedHosts hosts,
      engine::ConnectHierarchical(store, environment.rank, environment.world_size,
                                  {.group = GroupOf(environment, timeouts),
                                   .connect_timeout = timeouts.store,
                                   .address = environment.address,
                                   .interface = environment.gloo_interface,
                                   .host = choice.on_one_worker ? "" : environment.worker}));
  if (!hosts.why_not.empty())
    Log(Severity::kWarning, "no_shared_memory",
        {{"rank", environment.rank}, {"reason", hosts.why_not}});
  return OpenedGroup{{}, std::move(hosts.group), hosts.backend};
}

// All backends compute the same bits.
absl::StatusOr<OpenedGroup> OpenOnCpu(const BackendChoice& choice, Store& store,
                                      const Environment& environment, const Timeouts& timeouts) {
  if (choice.name == "auto" || choice.name == "hierarchical")
    return OpenOnHosts(choice, store, environment, timeouts);
  const engine::GroupOptions options = GroupOf(environment, timeouts);
  if (choice.name == "shm") {
    DP_ASSIGN_OR_RETURN(std::unique_ptr<engine::Group> group,
                        engine::ConnectShm(store, environment.rank, environment.world_size,
                                           {.group = options, .connect_timeout = timeouts.store}));
    return OpenedGroup{{}, std::move(group), "shm"};
  }
  DP_ASSIGN_OR_RETURN(std::unique_ptr<engine::Group> group,
                      engine::ConnectGloo(store, environment.rank, environment.world_size,
                                          {.group = options,
                                           .connect_timeout = timeouts.store,
                                           .address = environment.address,
                                           .interface = environment.gloo_interface}));
  return OpenedGroup{{}, std::move(group), "gloo"};
}

absl::StatusOr<OpenedGroup> OpenNccl(Store& store, const Environment& environment,
                                     const Timeouts& timeouts, const RankModel& model) {
  OpenedGroup opened{.nccl = {}, .group = {}, .backend = "nccl"};
  absl::StatusOr<std::unique_ptr<engine::NcclApi>> nccl = engine::LoadNccl();
  if (!nccl.ok()) return WithoutNccl(nccl.status());
  opened.nccl = *std::move(nccl);
  DP_ASSIGN_OR_RETURN(opened.group,
                      engine::ConnectNccl(*opened.nccl, store, environment.rank,
                                          environment.world_size, NcclOptionsOf(timeouts, model)));
  return opened;
}

}  // namespace

absl::StatusOr<OpenedGroup> OpenGroup(const BackendChoice& choice, Store& store,
                                      const Environment& environment, const Timeouts& timeouts,
                                      const RankModel* model) {
  const BackendChoice lower{absl::AsciiStrToLower(choice.name), choice.on_one_worker};
  DP_RETURN_IF_ERROR(CheckBackend(lower.name, environment.on_gpu));
  if (environment.world_size == 1) {
    const engine::GroupOptions options = GroupOf(environment, timeouts);
    return OpenedGroup{{}, std::move(engine::MakeLocalGroups(1, options)[0]), "local"};
  }
  if (environment.on_gpu) return OpenNccl(store, environment, timeouts, *model);
  return OpenOnCpu(lower, store, environment, timeouts);
}

size_t NcclOperationsOf(const RankModel& model) {
  return engine::kNcclOperationsMax + kStepsWaitingMax * model.averaged.parameters.size();
}

engine::NcclOptions NcclOptionsOf(const Timeouts& timeouts, const RankModel& model) {
  engine::NcclOptions options;
  options.group.timeout = timeouts.collective;
  options.connect_timeout = timeouts.store;
  options.compute_stream = model.device->stream();
  options.operations_max = NcclOperationsOf(model);
  options.tuning.ctas_max = engine::kCtasBesideBackward;
  return options;
}

absl::Status WithoutNccl(const absl::Status& not_loaded) {
  if (!absl::IsUnavailable(not_loaded)) return not_loaded;
  return absl::FailedPreconditionError(
      absl::StrCat("NCCL cannot be used: ", not_loaded.message(),
                   "; 'dp-trainer-cuda --self-check' on this host says more"));
}

}  // namespace dp::trainer
