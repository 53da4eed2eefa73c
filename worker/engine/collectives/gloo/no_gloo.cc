#include "worker/engine/collectives/gloo/gloo_group.h"

namespace dp::engine {

absl::StatusOr<std::unique_ptr<Group>> ConnectGloo(Store&, int, int, const GlooOptions&,
                                                   std::stop_token) {
  return absl::UnimplementedError("built without Gloo");
}

}  // namespace dp::engine
