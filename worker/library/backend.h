#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/engine/collectives/group.h"
#include "worker/library/init_method.h"
#include "worker/library/nccl/nccl_options.h"
#include "worker/library/nccl/nccl_use.h"
#include "worker/library/open_store.h"

namespace dp::library {

// A backend's name in lower case. "auto" with a device is "nccl". Errors: InvalidArgument unknown,
// with the known names; Unimplemented not in this build.
absl::StatusOr<std::string> BackendNamed(absl::string_view name, const NcclPlace& nccl = {});

struct GroupPlace {
  int rank = 0;
  int size = 1;
  absl::Duration timeout;          // of every operation
  absl::Duration connect_timeout;  // what is left of `timeout` for connecting
  NcclPlace nccl;
};

struct OpenedGroup {
  std::unique_ptr<engine::Group> group;
  std::string backend;          // "shm", "hierarchical", "gloo", "nccl", "mpi" or a registered one
  std::optional<NcclUse> nccl;  // with backend nccl
};

// Whether a program cannot register this name in lower case. Names of dp's backends are reserved,
// in this build or another, and so is "undefined", torch's name for none.
bool IsReserved(absl::string_view name);

// Connects the ranks of `store` by `backend`, a result of BackendNamed. "auto" is shared memory
// where all ranks are on one host. It is Gloo where each rank has a host of its own, and the
// hierarchical backend in between. All ranks come to the same verdict.
// GLOO_SOCKET_IFNAME and DP_ADDRESS override the address.
// Throws what the factory of a registered backend throws.
// Errors: those of ConnectShm, ConnectGloo, OpenNccl and ConnectMpi; FailedPrecondition says which
// backend to take.
absl::StatusOr<OpenedGroup> OpenGroup(const std::string& backend,
                                      const std::shared_ptr<OpenStore>& store,
                                      const GroupPlace& place, const Variables& variables);

}  // namespace dp::library
