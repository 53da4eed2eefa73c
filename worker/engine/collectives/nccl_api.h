#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/collectives/group.h"

namespace dp::engine {

// How a communicator uses the GPU beside the computation. Zero: NCCL's own choice.
struct NcclTuning {
  // Ranks that share an SM cluster's blocks: as many SMs must be free at once before a collective
  // begins. NCCL takes 4 on Hopper; with 2 it begins sooner beside a backward that fills the GPU.
  int cga_cluster_size = 2;
  // Whether NCCL takes as few blocks as still fill the links, since they are taken from backward;
  // where it has a choice, which in 2.28 all-reduces do not leave it. There is no limit of ours:
  // NCCL knows the links, and one that is right on one host costs bandwidth on another.
  bool few_ctas = true;
};

// The few entry points of NCCL and the CUDA runtime that a group needs, without their headers. No
// call blocks on a peer: communicators are made in NCCL's non-blocking mode, and what is under way
// is asked about. A communicator is used by one thread. Errors of all calls: Unavailable where a
// peer or the network failed, FailedPrecondition where the system failed a call that asks no peer
// (UniqueId, Join), Internal otherwise, with the library's own words.
class NcclApi {
 public:
  using Communicator = void*;
  using Stream = void*;
  using Event = void*;

  virtual ~NcclApi() = default;

  // Chooses the calling thread's device.
  virtual absl::Status UseDevice(int device) = 0;

  // As "2.28.9".
  virtual absl::StatusOr<std::string> Version() = 0;
  // Bytes that some ranks draw (nccl_ids.h) and all ranks join by. Whoever draws one serves it to
  // the ranks that join by it.
  virtual absl::StatusOr<std::string> UniqueId() = 0;
  // The same ids, in the same order, on all ranks. Errors, too: Unimplemented more than one id, in
  // a library before 2.23.
  virtual absl::StatusOr<Communicator> Join(absl::Span<const std::string> ids, int rank, int size,
                                            const NcclTuning& tuning) = 0;
  // Whether what was begun last (Join, Finalize, or giving an operation to its stream) has been
  // done.
  virtual absl::StatusOr<bool> Ready(Communicator communicator) = 0;
  // Begins to part from the peers in good order, after all operations; Ready says when that is
  // done.
  virtual absl::Status Finalize(Communicator communicator) = 0;
  // Frees a communicator that was finalized.
  virtual void Destroy(Communicator communicator) = 0;
  // Ends the communicator with all its operations, wherever they are, and frees it.
  virtual void Abort(Communicator communicator) = 0;

  // In place, on `stream`.
  virtual absl::Status AllReduce(Communicator communicator, float* data, size_t count, ReduceOp op,
                                 Stream stream) = 0;
  virtual absl::Status Broadcast(Communicator communicator, uint8_t* data, size_t bytes, int root,
                                 Stream stream) = 0;
  virtual absl::Status AllGather(Communicator communicator, const uint8_t* data, size_t bytes,
                                 uint8_t* gathered, Stream stream) = 0;

  // One whose kernels go before those of other streams where blocks compete for room.
  virtual absl::StatusOr<Stream> MakeStream() = 0;
  virtual void FreeStream(Stream stream) = 0;
  // An event is passed when everything given to `stream` so far is done.
  virtual absl::StatusOr<Event> Record(Stream stream) = 0;
  virtual absl::StatusOr<bool> Passed(Event event) = 0;
  virtual absl::Status WaitOnStream(Stream stream, Event event) = 0;
  virtual void FreeEvent(Event event) = 0;

  // Memory of the chosen device. Errors, too: ResourceExhausted.
  virtual absl::StatusOr<uint8_t*> Allocate(size_t bytes) = 0;
  virtual void Free(uint8_t* memory) = 0;
  // Between any two memories, after what `stream` was given before; blocks until it is done.
  virtual absl::Status Copy(const uint8_t* from, size_t bytes, uint8_t* to, Stream stream) = 0;
};

// NCCL and the CUDA runtime, loaded when first asked for, so that a program which offers NCCL
// starts on hosts without it. Errors: Unavailable a library that is not there; Unimplemented in a
// build without NCCL.
absl::StatusOr<std::unique_ptr<NcclApi>> LoadNccl();

}  // namespace dp::engine
