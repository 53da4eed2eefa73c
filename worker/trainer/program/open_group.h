#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/timeouts.h"
#include "store/store.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/nccl/nccl_api.h"
#include "worker/engine/collectives/nccl/nccl_group.h"
#include "worker/trainer/environment.h"
#include "worker/trainer/model/rank_model.h"

namespace dp::trainer {

// How the ranks of a world on CPUs are to be connected.
struct BackendChoice {
  std::string name;            // "auto", or train.backend
  bool on_one_worker = false;  // all ranks are on one, which then is one host
};

struct OpenedGroup {
  std::unique_ptr<engine::NcclApi> nccl;  // outlives `group`, which uses it
  std::unique_ptr<engine::Group> group;
  // The backend in use: "shm", "hierarchical", "gloo", "nccl", or "local" for a world of one rank.
  std::string backend;
};

// Connects the ranks of this generation: by NCCL if the rank computes on a GPU. On CPUs, "auto"
// shares memory among the ranks of each worker, as far as they find that they can, and connects the
// others over Gloo. Ranks find each other through `store`. Blocks until all ranks are connected; a
// rank that loads much data is late.
//
// On a GPU, `model` is made first, since timing algorithms may take longer than a collective's
// timeout. On CPUs it is null: the group's memory is the fastest for gradients.
//
// Errors: InvalidArgument unknown backend; Unimplemented the backend does not fit the device, or is
// not built in. FailedPrecondition this host's NCCL cannot be used, with what to look at; or the
// ranks were told to share memory and cannot.
// DeadlineExceeded names the ranks that did not arrive.
absl::StatusOr<OpenedGroup> OpenGroup(const BackendChoice& choice, Store& store,
                                      const Environment& environment, const Timeouts& timeouts,
                                      const RankModel* model);

// How many collectives of a training may be in flight. Each step has one for each bucket, and a
// bucket holds at least one parameter.
size_t NcclOperationsOf(const RankModel& model);

// How a trainer's ranks meet over NCCL, which shares the GPU with the model's backward.
engine::NcclOptions NcclOptionsOf(const Timeouts& timeouts, const RankModel& model);

// The error of a rank whose NCCL could not be loaded. Unavailable becomes FailedPrecondition,
// because Unavailable means a lost peer.
absl::Status WithoutNccl(const absl::Status& not_loaded);

}  // namespace dp::trainer
