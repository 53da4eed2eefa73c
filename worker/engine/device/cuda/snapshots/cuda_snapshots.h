#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/device/cuda/network/cuda_device_context.h"
#include "worker/engine/device/device.h"

namespace dp::engine::cuda {

struct SnapshotSpace;

// Takes snapshots of a device's arrays. The device copies the arrays within its own memory, in its
// stream's order, and computes on. The snapshot's reader brings the copy to the host, on a stream
// of its own. Without memory for the copy, Take reads the arrays itself, and the device waits.
//
// The space of a snapshot is allocated at the first one and kept, because freeing memory would stop
// the device. One snapshot at a time has that space. One thread uses an object of this class.
class Snapshots {
 public:
  // Null if page-locked memory is short, or another snapshot has it: the caller then copies to
  // pageable memory. Errors: the device's.
  absl::StatusOr<std::unique_ptr<Snapshot>> Take(DeviceContext& context,
                                                 absl::Span<const absl::Span<const float>> arrays);

 private:
  absl::Status MakeSpace(DeviceContext& context);

  std::shared_ptr<SnapshotSpace> space_;
  bool said_pageable_ = false;  // the log has one line about it
};

}  // namespace dp::engine::cuda
