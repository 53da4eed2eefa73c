#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/device/device.h"

namespace dp::engine {

// The sizes of the parts into which a batch is split: ceil(samples / devices) each, the last may be
// shorter. At most one part for each device, and at least one. Pure.
std::vector<int> PartsOfBatch(int samples, int devices);

// Several devices that look like one, as torch.nn.DataParallel. A network is compiled for each
// device, on a thread of its own. Each batch is split by PartsOfBatch, and the devices compute its
// parts at the same time. Backward then adds their gradients in a tree over devices
// (docs/ddp.md, "Ordered sums"), so the same run gives the same bits again.
//
// The gradients are those of one device up to the order of additions. A batch norm, and the loss
// `norm`, see one part at a time.
//
// Values, gradients and the optimizer are on the first device, and lie in host memory, which all
// devices read. `open` opens one device and runs on each device's thread. Its devices must compute
// on CPUs.
// Errors: those of `open`.
absl::StatusOr<std::unique_ptr<Device>> OpenReplicas(
    int devices, const std::function<absl::StatusOr<std::unique_ptr<Device>>()>& open);

}  // namespace dp::engine
