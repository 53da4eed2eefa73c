#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dp::engine::cuda {

// Work captured once and launched as one piece, with the addresses and sizes it was captured with.
// What changes from launch to launch is read from device memory. Not thread-safe; launches of one
// graph run one after another.
class GraphExec {
 public:
  GraphExec() = default;  // of no use but to be assigned to

  absl::Status Launch(cudaStream_t stream) const;

  explicit operator bool() const { return exec_ != nullptr; }
  // Kernels, copies and the like.
  size_t nodes() const { return nodes_; }

 private:
  friend absl::StatusOr<GraphExec> CaptureGraph(cudaStream_t stream,
                                                const std::function<absl::Status()>& enqueue);
  struct Destroy {
    void operator()(cudaGraphExec_t exec) const { cudaGraphExecDestroy(exec); }
  };
  std::unique_ptr<CUgraphExec_st, Destroy> exec_;
  size_t nodes_ = 0;
};

// Captures what `enqueue` puts into `stream`. Ends the capture whatever `enqueue` answers, whose
// error goes first. While capturing, this thread may make no call that waits or allocates; other
// threads may.
absl::StatusOr<GraphExec> CaptureGraph(cudaStream_t stream,
                                       const std::function<absl::Status()>& enqueue);

}  // namespace dp::engine::cuda
