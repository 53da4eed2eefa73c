#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/engine/device/device.h"
#include "worker/trainer/environment.h"

namespace dp::trainer {

// Opens what this rank computes on, as its daemon has decided: the CPU with `threads` threads, or
// the first GPU that it is shown. Errors: those of the device, with what to look at.
absl::StatusOr<std::unique_ptr<engine::Device>> OpenRankDevice(const Environment& environment,
                                                               int threads);

}  // namespace dp::trainer
