#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/collectives/group.h"

namespace dp::engine {

// The few entry points of NCCL and the CUDA runtime that a group needs, without their headers. No
// call blocks on a peer: communicators are made in NCCL's non-blocking mode, and what is under way
// is asked about. A communicator is used by one thread. Errors of all calls: Unavailable where a
// peer or the network failed, Internal otherwise, with the library's own words.
class NcclApi {
 public:
  using Communicator = void*;
  using Stream = void*;
  using Event = void*;

  virtual ~NcclApi() = default;

  // Chooses the calling thread's device.
  virtual absl::Status UseDevice(int device) = 0;

  // Bytes that rank 0 draws and all ranks join by.
  virtual absl::StatusOr<std::string> UniqueId() = 0;
  virtual absl::StatusOr<Communicator> Join(const std::string& id, int rank, int size) = 0;
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

  virtual absl::StatusOr<Stream> MakeStream() = 0;
  virtual void FreeStream(Stream stream) = 0;
  // An event is passed when everything given to `stream` so far is done.
  virtual absl::StatusOr<Event> Record(Stream stream) = 0;
  virtual absl::StatusOr<bool> Passed(Event event) = 0;
  virtual absl::Status WaitOnStream(Stream stream, Event event) = 0;
  virtual void FreeEvent(Event event) = 0;
};

// NCCL and the CUDA runtime, loaded when first asked for, so that a program which offers NCCL
// starts on hosts without it. Errors: Unavailable a library that is not there; Unimplemented in a
// build without NCCL.
absl::StatusOr<std::unique_ptr<NcclApi>> LoadNccl();

}  // namespace dp::engine
