#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "store/store.h"
#include "worker/engine/collectives/gloo/gloo_group.h"

namespace dp::library {

// ConnectGloo as the module exports it, with its result written to `group`. Both sides are of one
// build, which the module's name states.
using ConnectGlooInModule = void(Store& store, int rank, int size,
                                 const engine::GlooOptions& options, const std::stop_token& stop,
                                 absl::StatusOr<std::unique_ptr<engine::Group>>& group);
inline constexpr char kConnectGlooInModule[] = "dp_connect_gloo";

}  // namespace dp::library
