#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/store/store.h"
#include "base/timeouts.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/nccl_api.h"
#include "worker/trainer/environment.h"

namespace dp::trainer {

struct OpenedGroup {
  std::unique_ptr<engine::NcclApi> nccl;  // of the group, which must go first
  std::unique_ptr<engine::Group> group;
  std::string backend;  // the one chosen: "gloo", "nccl", or "local" for a world of one rank
};

// Binds the ranks of this generation together: by NCCL where they compute on GPUs, whose work is
// given to `stream`, else by Gloo. `backend` is "auto" or a name; ranks find each other through
// `store`. Blocks until all are connected, which those that load data do later than others.
// Errors: InvalidArgument unknown backend; Unimplemented a backend that this build or host lacks;
// DeadlineExceeded names the ranks that did not arrive.
absl::StatusOr<OpenedGroup> OpenGroup(const std::string& backend, Store& store,
                                      const Environment& environment, const Timeouts& timeouts,
                                      void* stream = nullptr);

}  // namespace dp::trainer
