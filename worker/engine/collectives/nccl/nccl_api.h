#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/collectives/cuda/cuda_api.h"
#include "worker/engine/collectives/group.h"

namespace dp::engine {

// The most thread blocks of a trainer's collectives. Backward leaves them as many of the GPU's
// processors.
inline constexpr int kCtasBesideBackward = 16;

// How a communicator uses the GPU beside the computation. Zero leaves the choice to NCCL.
struct NcclTuning {
  // Thread blocks of a cluster: as many SMs must be free at once before a collective begins. NCCL
  // takes 4 on Hopper; with 2 it begins sooner beside a backward that fills the GPU.
  int cga_cluster_size = 2;
  // Whether NCCL takes only as many blocks as fill the links, since it takes them from backward.
  // NCCL 2.28 ignores the setting for all-reduces.
  bool few_ctas = true;
  // The most thread blocks. The library sets no limit: NCCL knows the links, and a limit that is
  // right on one host costs bandwidth on another. The trainer sets kCtasBesideBackward.
  int ctas_max = 0;
};

// The few entry points of NCCL that a group needs, and those of the CUDA runtime for its streams,
// without their headers. No call blocks on a peer: communicators are non-blocking, and the caller
// polls what is in progress. Each communicator is used by one thread.
// Errors of all calls: Unavailable a peer or the network failed; Internal otherwise. Calls before
// the communicator has joined (UniqueId, Join, Joined) have two more. FailedPrecondition: this
// host's system failed, for example for want of shared memory or descriptors. ResourceExhausted:
// the GPU's memory is full. The message has the library's own words.
class NcclApi : public CudaApi {
 public:
  using Communicator = void*;
  using Event = void*;

  // The GPU's place in its host. Two devices of a host with one place are the same GPU.
  virtual absl::StatusOr<std::string> PlaceOf(int device) = 0;

  // As "2.28.9".
  virtual absl::StatusOr<std::string> Version() = 0;
  // Bytes that some ranks draw (nccl_connect.h) and by which all ranks join. The rank that draws an
  // id serves it to the ranks that join by it.
  virtual absl::StatusOr<std::string> UniqueId() = 0;
  // All ranks give the same ids in the same order. Errors: also Unimplemented more than one id,
  // with a library before 2.23.
  virtual absl::StatusOr<Communicator> Join(absl::Span<const std::string> ids, int rank, int size,
                                            const NcclTuning& tuning) = 0;
  // Whether Join is no longer in progress.
  virtual absl::StatusOr<bool> Joined(Communicator communicator) = 0;
  // Whether the latest Finalize or operation given to a stream is no longer in progress.
  virtual absl::StatusOr<bool> Ready(Communicator communicator) = 0;
  // Starts to disconnect from the peers in good order, after all operations; Ready reports when
  // that is done.
  virtual absl::Status Finalize(Communicator communicator) = 0;
  // Frees a finalized communicator.
  virtual void Destroy(Communicator communicator) = 0;
  // Ends the communicator with all its operations, in whatever state, and frees it.
  virtual void Abort(Communicator communicator) = 0;

  // Gives the collective to `stream`. It is no barrier, and its memory is the device's.
  virtual absl::Status Give(Communicator communicator, const Collective& call, Stream stream) = 0;

  // A stream whose kernels precede those of other streams where blocks compete for room.
  virtual absl::StatusOr<Stream> MakeStream() = 0;
  virtual void FreeStream(Stream stream) = 0;
  // The event passes when everything given to `stream` so far is done.
  virtual absl::StatusOr<Event> Record(Stream stream) = 0;
  virtual absl::StatusOr<bool> Passed(Event event) = 0;
  virtual absl::Status WaitOnStream(Stream stream, Event event) = 0;
  virtual void FreeEvent(Event event) = 0;
};

// Loads NCCL and the CUDA runtime at run time, so a program that offers NCCL starts on hosts
// without it. Errors: Unavailable a library is not there; Unimplemented in a build without NCCL.
absl::StatusOr<std::unique_ptr<NcclApi>> LoadNccl();

}  // namespace dp::engine
