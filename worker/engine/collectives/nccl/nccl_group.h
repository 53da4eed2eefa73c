#pragma once

#include <cstddef>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "store/store.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/nccl/nccl_api.h"

namespace dp::engine {

// The limit on waiting operations if the caller sets none.
inline constexpr size_t kNcclOperationsMax = 4096;

struct NcclOptions {
  GroupOptions group;
  // How long the ranks may take to find each other.
  absl::Duration connect_timeout = absl::Minutes(5);
  int device = 0;
  // The stream on which the caller computes: an operation begins after the stream's earlier work.
  NcclApi::Stream compute_stream = nullptr;
  NcclTuning tuning;
  // Size of the GPU memory through which the host's memory goes, a piece at a time. The same on all
  // ranks.
  int64_t staging_bytes = int64_t{4} << 20;
  // One unique id for this many ranks. If more than 256 share an id (NCCL_UID_STAGGER_THRESHOLD),
  // NCCL makes them come to its owner one by one. At 7000 a second that takes seconds in worlds of
  // 10,000.
  int ranks_per_id = 256;
  // How many operations may have been called and not ended; one more breaks the group. Set it above
  // the number that the caller calls before it waits.
  size_t operations_max = kNcclOperationsMax;
  // Whether ranks can send each other messages, all of them or none. Ranks of one host then listen
  // at a socket of the host, others at `message_address`, in digits.
  bool messages = false;
  std::string message_address = {};
  // Few blocks: many directions may have a message on the device at once, and each must find room.
  NcclTuning message_tuning = {.ctas_max = 4};
  // The longest interval between two reports of a rank that suspects something. One report a second
  // from each of a thousand ranks is nothing to the store; rarer reports would only delay errors.
  absl::Duration beat = absl::Seconds(1);
  // Whether to ask NCCL's own watch, too, who is missing (NCCL_RAS_ENABLE, NCCL_RAS_ADDR). This
  // takes one connection to this host, when an operation is about to fail.
  bool ask_ras = true;
};

// Joins `size` ranks, each with its own GPU, over NCCL. Operations take device memory, those of
// `on_host()` host memory. A world of one rank calls nothing of NCCL and runs no kernel; only a
// gather copies.
//
// Messages between two ranks go over communicators of their own, which their first messages make.
//
// The ranks find each other through `store`, where nobody else uses keys that begin with "nccl/".
// `store` and `api` outlive the group. The group uses the store again only when an operation is
// stuck. The ranks then report there that they live, since NCCL does not say who is missing
// (docs/collectives.md). The destructor waits for a store call in flight.
//
// Ranks that share a GPU get FailedPrecondition on every rank, before NCCL is asked.
//
// NCCL adds in its own order: the same bits run after run on the same hosts, but not in rank order.
// A peer's death shows as an error of NCCL's or not at all; then the deadline ends the operation.
// Errors: as ConnectGloo, and those of NcclApi.
absl::StatusOr<std::unique_ptr<Group>> ConnectNccl(NcclApi& api, Store& store, int rank, int size,
                                                   const NcclOptions& options,
                                                   std::stop_token stop = {});

}  // namespace dp::engine
