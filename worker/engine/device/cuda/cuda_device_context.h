#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/device/cuda/cuda_memory.h"
#include "worker/engine/device/cuda/cuda_planning.h"
#include "worker/engine/device/cuda/cuda_stream.h"

namespace dp::engine::cuda {

// One GPU with its stream, libraries and plans: what CudaDevice and all it made share. Owned by the
// device; not thread-safe.
class DeviceContext {
 public:
  // Errors: Unavailable where the driver or the GPU is missing, saying which.
  static absl::StatusOr<DeviceContext> Open(int index);

  // Chooses the device for the calling thread: any one thread at a time may use it.
  void Use();

  cudaStream_t stream() const { return stream_.get(); }
  Planning planning();
  PlanCache& plans() { return cache_; }
  // Keeps what plans have found fastest for the next process; where that cannot be written, the
  // next one finds out itself.
  void SavePlans();

  // Notes the first error. Calls that answer to nobody end here.
  void Note(const absl::Status& status) { status_.Update(status); }
  const absl::Status& status() const { return status_; }
  // Runs `work` unless there was an error, and notes its own.
  void Do(const std::function<absl::Status()>& work);
  absl::Status Synchronize() { return stream_.Synchronize(); }

  // Counts what changes an array other than a step program: copies from the host, collectives
  // apart, and optimizer steps by themselves. Tells who keeps what follows from values.
  void ArraysChanged() { ++changes_; }
  int64_t changes() const { return changes_; }

 private:
  DeviceContext(int index, Libraries libraries);

  int index_;
  Libraries libraries_;
  PlanCache cache_;
  Stream stream_;
  DeviceBuffer workspace_;
  absl::Status status_;
  int64_t changes_ = 0;
};

}  // namespace dp::engine::cuda
