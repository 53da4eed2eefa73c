#include "worker/engine/device/cuda/runtime/cuda_graph.h"

#include "base/status.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"

namespace dp::engine::cuda {
namespace {

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
using Graph = std::unique_ptr<CUgraph_st, DestroyGraph>;

// The work that `enqueue` puts into the stream. The stream has left its capture on return.
absl::StatusOr<Graph> Captured(cudaStream_t stream, const std::function<absl::Status()>& enqueue) {
  DP_CUDA_RETURN_IF_ERROR(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  const absl::Status enqueued = enqueue();
  cudaGraph_t ended = nullptr;
  const cudaError_t result = cudaStreamEndCapture(stream, &ended);
  Graph graph(ended);
  if (!enqueued.ok()) {
    (void)cudaGetLastError();  // clears the error that a broken capture leaves
    return enqueued;
  }
  DP_CUDA_RETURN_IF_ERROR(result);
  return graph;
}

}  // namespace

absl::StatusOr<GraphExec> CaptureGraph(cudaStream_t stream,
                                       const std::function<absl::Status()>& enqueue) {
  DP_ASSIGN_OR_RETURN(const Graph graph, Captured(stream, enqueue));
  GraphExec exec;
  DP_CUDA_RETURN_IF_ERROR(cudaGraphGetNodes(graph.get(), nullptr, &exec.nodes_));
  cudaGraphExec_t made = nullptr;
  DP_CUDA_RETURN_IF_ERROR(cudaGraphInstantiate(&made, graph.get(), 0));
  exec.exec_.reset(made);
  // With this upload the first launch costs no more than the others.
  DP_CUDA_RETURN_IF_ERROR(cudaGraphUpload(made, stream));
  return exec;
}

absl::Status GraphExec::Launch(cudaStream_t stream) const {
  DP_CUDA_RETURN_IF_ERROR(cudaGraphLaunch(exec_.get(), stream));
  return absl::OkStatus();
}

}  // namespace dp::engine::cuda
