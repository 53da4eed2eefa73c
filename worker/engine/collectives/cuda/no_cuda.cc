#include "worker/engine/collectives/cuda/cuda_api.h"

namespace dp::engine {

absl::StatusOr<std::unique_ptr<CudaApi>> LoadCuda() {
  return absl::UnimplementedError("built without CUDA");
}

}  // namespace dp::engine
