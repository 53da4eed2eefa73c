#pragma once

#include <string>

#include "absl/status/status.h"
#include "dp/v1/checkpoints.pb.h"

namespace dp::trainer {

// Whether a training may continue from a checkpoint. `now` is the manifest that the training would
// write itself. Pure.

// Rejects differences that would change the position in the data or the meaning of the tensors. It
// compares tensors, optimizer, seed, number of samples, global batch size, shuffle and dropLast.
// Errors: FailedPrecondition names the first that differs, with both values.
absl::Status CheckFits(const v1::CheckpointManifest& checkpoint, const v1::CheckpointManifest& now);

// Describes differences that are allowed but change the bits from here on: world size, device,
// precision and, on CPUs, threads and instruction set. Skips fields that an earlier release did not
// write. Empty if the bits stay the same.
std::string OtherBits(const v1::CheckpointManifest& checkpoint, const v1::CheckpointManifest& now);

}  // namespace dp::trainer
