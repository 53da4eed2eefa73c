#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dp::engine::cuda {

// A point in a stream's order, without timing. A wait for an event that was never recorded returns
// at once. Not thread-safe.
class Event {
 public:
  static absl::StatusOr<Event> Make();

  Event() = default;  // only to be assigned to

  absl::Status Record(cudaStream_t stream);
  // Blocks the host until the recorded point is reached. The thread sleeps meanwhile.
  absl::Status Synchronize() const;

  cudaEvent_t get() const { return event_.get(); }

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };
  std::unique_ptr<CUevent_st, Destroy> event_;
};

// A queue of work on the current device, at the lowest priority, which does not wait for the
// default stream. Not thread-safe.
class Stream {
 public:
  static absl::StatusOr<Stream> Make();

  Stream() = default;  // only to be assigned to

  // Blocks the host until all work queued so far is done; returns the error of that work.
  absl::Status Synchronize() const;

  cudaStream_t get() const { return stream_.get(); }

 private:
  struct Destroy {
    void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  };
  std::unique_ptr<CUstream_st, Destroy> stream_;
};

}  // namespace dp::engine::cuda
