#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "store/store.h"
#include "worker/engine/collectives/group.h"

// Groups over Open MPI (docs/collectives.md, "MPI").

namespace dp::engine {

// This process among those that mpirun has started together.
struct MpiPlace {
  int rank = 0;
  int size = 1;
  bool one_host = true;  // all of them are on this host
};

// Starts MPI in this process, unless the program or an earlier call has. It ends with the process.
// Errors: FailedPrecondition mpirun did not start the process, or the program has started MPI
// without MPI_THREAD_MULTIPLE, or ended it; Unimplemented a build without MPI.
absl::StatusOr<MpiPlace> StartMpi();

// Gives every process the text of rank 0, at most 255 bytes. All processes call it, in the same
// order. Blocks. Errors: those of StartMpi; DeadlineExceeded.
absl::StatusOr<std::string> TextOfMpiRank0(const std::string& text, absl::Duration timeout);

struct MpiOptions {
  GroupOptions group;
  // How long the ranks may take to find each other.
  absl::Duration connect_timeout = absl::Minutes(5);
  // In digits: where ranks of other hosts reach this one, for messages. They go over TCP, or within
  // a host over its own sockets.
  std::string address = {};
};

// Joins `size` ranks in processes that mpirun has started together, in any order and any selection.
// They meet in `store`, where nobody else uses keys that begin with "mpi/". The store is not used
// after this returns. Blocks until all ranks are connected or the connect timeout has passed.
// Errors: those of StartMpi; DeadlineExceeded names the ranks that did not arrive. Also the
// store's.
absl::StatusOr<std::unique_ptr<Group>> ConnectMpi(Store& store, int rank, int size,
                                                  const MpiOptions& options);

}  // namespace dp::engine
