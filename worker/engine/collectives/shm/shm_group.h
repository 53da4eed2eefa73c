#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "store/store.h"
#include "worker/engine/collectives/group.h"

namespace dp::engine {

// The most ranks that share memory: hosts have few more cores, and the files of all ranks fit one
// message.
inline constexpr int kSharingRanksMax = 128;

struct ShmOptions {
  GroupOptions group;
  // How long the ranks may take to find each other.
  absl::Duration connect_timeout = absl::Minutes(5);
  // The name of each rank in errors. Empty: its number in the group.
  std::vector<int> names = {};
};

// Joins `size` ranks in processes or threads of one host through shared memory
// (docs/collectives.md). The ranks find each other through `store`, where nobody else uses keys
// that begin with "shm/". The store is not used after this returns. Blocks until all ranks are
// connected, the connect timeout has passed, or any thread requests `stop` (returns Aborted within
// 1 s).
// Errors: FailedPrecondition the ranks cannot share memory, with the same reason on every rank.
// Either they are on several hosts, which it names, or of several users, or too many.
// DeadlineExceeded names the ranks that did not arrive; Unavailable a peer went away. Also the
// store's.
absl::StatusOr<std::unique_ptr<Group>> ConnectShm(Store& store, int rank, int size,
                                                  const ShmOptions& options,
                                                  std::stop_token stop = {});

// The same, where the caller reads the memory of the peers too.
struct SharedRanks {
  std::unique_ptr<Group> group;
  // Where the memory that each rank allocates from the group begins, by rank. A rank that allocates
  // first gets the beginning. Ends with the group.
  std::vector<uint8_t*> heaps;
};
absl::StatusOr<SharedRanks> ConnectShared(Store& store, int rank, int size,
                                          const ShmOptions& options, std::stop_token stop = {});

}  // namespace dp::engine
