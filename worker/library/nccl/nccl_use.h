#pragma once

#include <initializer_list>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dp/elements.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/nccl/nccl_api.h"
#include "worker/library/gpu/gpu_memory.h"
#include "worker/library/nccl/nccl_options.h"
#include "worker/library/open_store.h"

// Groups over GPU memory.

namespace dp::library {

// How a group uses NCCL.
struct NcclUse {
  engine::NcclApi* api = nullptr;
  int device = 0;
  void* stream = nullptr;
  bool blocking_wait = false;

  GpuUse gpu() const { return {api, device, stream}; }
};

struct NcclGroup {
  std::unique_ptr<engine::Group> group;
  NcclUse use;
};

// Loads NCCL, which the process then keeps, and chooses the calling thread's device. A rank calls
// this before it meets its peers, so that nobody waits for a rank that cannot join. Errors:
// InvalidArgument names the option or the variable; Unimplemented a library is missing, or the
// process sees no GPU.
absl::StatusOr<NcclUse> PrepareNccl(const NcclPlace& place, const Variables& variables);

// Prepares, and joins. `store` outlives the group. Errors: also those of ConnectNccl.
absl::StatusOr<NcclGroup> OpenNccl(OpenStore& store, int rank, int size, absl::Duration timeout,
                                   const NcclPlace& place, const Variables& variables);

// From now on the process uses this NCCL, and it as CUDA's runtime; null: its own again. For tests.
void ReplaceNccl(engine::NcclApi* nccl);

// Whether the arrays of `verb` are memory of the group's GPU. Chooses the calling thread's device.
// Empty ones count as the others. Errors: InvalidArgument they are of both kinds, of another GPU,
// or the host's with a verb that takes a GPU's only.
absl::StatusOr<bool> AreOnDevice(const NcclUse& use, absl::string_view verb,
                                 std::initializer_list<distributed::Elements> arrays);

}  // namespace dp::library
