#pragma once

#include <string>

#include "absl/status/status.h"
#include "dp/v1/checkpoints.pb.h"

namespace dp::trainer {

// Whether a training may go on from a checkpoint. `now` is the manifest that it would write itself.
// Pure.

// What changes the meaning of the position in the data, or of the tensors, is refused: the
// tensors, the optimizer, seed, number of samples, global batch size, shuffle, dropLast. Errors:
// FailedPrecondition names the first that differs, with both values.
absl::Status CheckFits(const v1::CheckpointManifest& checkpoint, const v1::CheckpointManifest& now);

// What is sound and gives other bits from here on, for people: world size, device, precision, and
// on CPUs threads and instruction set. What an earlier release did not write is not compared. Empty
// where the bits stay the same.
std::string OtherBits(const v1::CheckpointManifest& checkpoint, const v1::CheckpointManifest& now);

}  // namespace dp::trainer
