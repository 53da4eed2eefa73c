#include "worker/library/gloo_module.h"

namespace dp::library {

extern "C" ConnectGlooInModule dp_connect_gloo;

void dp_connect_gloo(Store& store, int rank, int size, const engine::GlooOptions& options,
                     const std::stop_token& stop,
                     absl::StatusOr<std::unique_ptr<engine::Group>>& group) {
  group = engine::ConnectGloo(store, rank, size, options, stop);
}

}  // namespace dp::library
