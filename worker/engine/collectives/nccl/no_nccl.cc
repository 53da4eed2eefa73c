#include "worker/engine/collectives/nccl/nccl_api.h"

namespace dp::engine {

absl::StatusOr<std::unique_ptr<NcclApi>> LoadNccl() {
  return absl::UnimplementedError("built without NCCL");
}

}  // namespace dp::engine
