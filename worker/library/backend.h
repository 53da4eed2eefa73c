#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "store/store.h"
#include "worker/engine/collectives/group.h"
#include "worker/library/init_method.h"

namespace dp::library {

// A backend's name in lower case. Errors: InvalidArgument unknown, with the known names;
// Unimplemented not in this build.
absl::StatusOr<std::string> BackendNamed(absl::string_view name);

struct GroupPlace {
  int rank = 0;
  int size = 1;
  absl::Duration timeout;   // of joining, and of every operation
  std::string own_address;  // where peers reach this process; empty if it is not known
};

struct OpenedGroup {
  std::unique_ptr<engine::Group> group;
  std::string backend;  // "shm", "hierarchical" or "gloo"
};

// Connects the ranks of `store` by `backend`, a result of BackendNamed. "auto" is shared memory
// where all ranks are on one host. It is Gloo where each rank has a host of its own, and the
// hierarchical backend in between. All ranks come to the same verdict.
// GLOO_SOCKET_IFNAME and DP_ADDRESS override the address.
// Errors: those of ConnectShm and ConnectGloo; FailedPrecondition says which backend to take.
absl::StatusOr<OpenedGroup> OpenGroup(const std::string& backend, Store& store,
                                      const GroupPlace& place, const Variables& variables);

}  // namespace dp::library
