#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/store/store.h"
#include "base/timeouts.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/nccl_api.h"
#include "worker/trainer/environment.h"
#include "worker/trainer/rank_model.h"

namespace dp::trainer {

struct OpenedGroup {
  std::unique_ptr<engine::NcclApi> nccl;  // of the group, which must go first
  std::unique_ptr<engine::Group> group;
  std::string backend;  // the one chosen: "gloo", "nccl", or "local" for a world of one rank
};

// Binds the ranks of this generation together: by NCCL where `model` is on a GPU, else by Gloo.
// `backend` is "auto" or a name; ranks find each other through `store`. Blocks until all are
// connected, which those that load data do later than others. The model is made before: from here
// on a rank that is late for an operation is missed within the time of one, and making a model,
// which times algorithms on a GPU, may take longer.
// Errors: InvalidArgument unknown backend; Unimplemented a backend that this build lacks;
// FailedPrecondition this host's NCCL cannot be used, with what to look at; DeadlineExceeded names
// the ranks that did not arrive.
absl::StatusOr<OpenedGroup> OpenGroup(const std::string& backend, Store& store,
                                      const Environment& environment, const Timeouts& timeouts,
                                      const RankModel& model);

// How many collectives of a training may wait: of each step under way one for each bucket, which
// holds a parameter at least.
size_t NcclOperationsOf(const RankModel& model);

// What a rank fails with whose NCCL could not be loaded: Unavailable would say that a peer was
// lost.
absl::Status WithoutNccl(const absl::Status& not_loaded);

}  // namespace dp::trainer
