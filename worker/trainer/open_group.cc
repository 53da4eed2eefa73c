#include "worker/trainer/open_group.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/engine/collectives/gloo_group.h"
#include "worker/engine/collectives/local_group.h"

namespace dp::trainer {
absl::StatusOr<OpenedGroup> OpenGroup(const std::string& backend, Store& store,
                                      const Environment& environment, const Timeouts& timeouts) {
  const engine::GroupOptions options{.timeout = timeouts.collective};
  const std::string name = absl::AsciiStrToLower(backend);
  if (name == "nccl") {
    return absl::UnimplementedError(
        "train.backend: nccl binds GPUs, and this trainer computes on CPUs; use auto or gloo");
  }
  if (name != "auto" && name != "gloo") {
    return absl::InvalidArgumentError(
        absl::StrCat("train.backend: '", backend, "' is unknown; use auto or gloo"));
  }
  if (environment.world_size == 1) {
    return OpenedGroup{std::move(engine::MakeLocalGroups(1, options)[0]), "local"};
  }
  DP_ASSIGN_OR_RETURN(std::unique_ptr<engine::Group> group,
                      engine::ConnectGloo(store, environment.rank, environment.world_size,
                                          {.group = options,
                                           .connect_timeout = timeouts.store,
                                           .address = environment.address,
                                           .interface = environment.gloo_interface}));
  return OpenedGroup{std::move(group), "gloo"};
}

}  // namespace dp::trainer
