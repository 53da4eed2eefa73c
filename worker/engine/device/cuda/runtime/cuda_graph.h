#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dp::engine::cuda {

// Work captured once and launched as one piece, with the addresses and sizes of the capture. Work
// reads changing input from device memory. Not thread-safe; launches of one graph run one after
// another.
class GraphExec {
 public:
  GraphExec() = default;  // only to be assigned to

  absl::Status Launch(cudaStream_t stream) const;

  explicit operator bool() const { return exec_ != nullptr; }
  // The number of kernels, copies and the like.
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

// Captures the work that `enqueue` puts into `stream`. Always ends the capture; an error of
// `enqueue` takes precedence. While capturing, this thread must make no call that waits or
// allocates; other threads may.
absl::StatusOr<GraphExec> CaptureGraph(cudaStream_t stream,
                                       const std::function<absl::Status()>& enqueue);

}  // namespace dp::engine::cuda
