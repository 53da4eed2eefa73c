#pragma once

#include <cstddef>
#include <memory>
#include <stop_token>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/store/store.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/nccl_api.h"

namespace dp::engine {

// As many operations may wait where nothing is known of the caller.
inline constexpr size_t kNcclOperationsMax = 4096;

struct NcclOptions {
  GroupOptions group;
  // How long the ranks may take to find each other.
  absl::Duration connect_timeout = absl::Minutes(5);
  int device = 0;
  // Where the caller computes: an operation begins after what was given to this stream before it.
  NcclApi::Stream compute_stream = nullptr;
  NcclTuning tuning;
  // The GPU memory through which what lies in the host's memory goes, a piece at a time. The same
  // on all ranks.
  int64_t staging_bytes = int64_t{4} << 20;
  // One unique id for so many ranks. NCCL makes them come to its owner one by one, 7000 a second,
  // where they are more than 256 (NCCL_UID_STAGGER_THRESHOLD): seconds in worlds of 10,000.
  int ranks_per_id = 256;
  // How many operations may have been called and not ended; one more breaks the group. Above what
  // the caller calls before it waits.
  size_t operations_max = kNcclOperationsMax;
  // How often a rank that suspects something tells the others that it lives, at most. One a second
  // from each of a thousand ranks is nothing to the store; less would only make errors later.
  absl::Duration beat = absl::Seconds(1);
  // NCCL's own watch is asked who is missing, too (NCCL_RAS_ENABLE, NCCL_RAS_ADDR): one connection
  // to this host, when an operation is about to fail.
  bool ask_ras = true;
};

// Joins `size` ranks, each with a GPU of its own, over NCCL. Operations take device memory, those
// of `on_host()` the host's. In a world of one rank nothing of NCCL is called and no kernel runs;
// only a gather copies.
//
// The ranks find each other through `store`, where nobody else uses keys that begin with "nccl/".
// Store and `api` outlive the group, which uses the store again only when an operation does not
// end: the ranks then say there who is there, since NCCL does not tell (docs/collectives.md). The
// destructor waits for a call of the store that is under way.
//
// Sums are NCCL's: the same bits run after run on the same hosts, but not in rank order. A peer's
// death shows as an error of NCCL's or not at all; then the deadline ends the operation.
// Errors: as ConnectGloo, and those of NcclApi.
absl::StatusOr<std::unique_ptr<Group>> ConnectNccl(NcclApi& api, Store& store, int rank, int size,
                                                   const NcclOptions& options,
                                                   std::stop_token stop = {});

}  // namespace dp::engine
