#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/device/cuda/plans/cuda_planning.h"
#include "worker/engine/device/cuda/runtime/cuda_memory.h"
#include "worker/engine/device/cuda/runtime/cuda_stream.h"

namespace dp::engine::cuda {

// One GPU with its stream, libraries and plans, shared by CudaDevice and everything that it made.
// Owned by the device; not thread-safe.
class DeviceContext {
 public:
  // Errors: Unavailable the driver or the GPU is missing, with a message that says which.
  static absl::StatusOr<DeviceContext> Open(int index);

  // Selects the device for the calling thread. Any thread may use the device, but one at a time.
  void Use();

  int index() const { return index_; }
  cudaStream_t stream() const { return stream_.get(); }
  Planning planning();
  PlanCache& plans() { return cache_; }
  // Keeps the plans found fastest for the next process. A failure to write them is only logged: the
  // next process then times the candidates itself.
  void SavePlans();

  // Records the first error. Calls that return no status record their errors here.
  void Note(const absl::Status& status) { status_.Update(status); }
  const absl::Status& status() const { return status_; }
  // Runs `work` unless there was an error, and records an error of `work`.
  void Do(const std::function<absl::Status()>& work);
  absl::Status Synchronize() { return stream_.Synchronize(); }

  // Counts changes of arrays outside step programs: copies from the host, and separate optimizer
  // steps. Collectives are not counted. Whoever caches something derived from values compares the
  // count.
  void ArraysChanged() { ++changes_; }
  int64_t changes() const { return changes_; }

 private:
  DeviceContext(int index, Libraries libraries);

  int index_;
  Libraries libraries_;
  PlanCache cache_;
  Stream stream_;
  DeviceBuffer workspace_;
  float busy_ms_ = 0;  // Planning::busy_ms
  absl::Status status_;
  int64_t changes_ = 0;
};

}  // namespace dp::engine::cuda
