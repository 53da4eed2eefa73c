#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/id.h"
#include "dp/v1/checkpoints.pb.h"
#include "worker/engine/nn/parameter.h"

namespace dp::trainer {

// A checkpoint on disk (docs/checkpoints.md): a directory with model.safetensors,
// optimizer.safetensors and manifest.json, which has the hashes of the others and is itself known
// by its own. Errors name the path and the system's reason.

// One array of an optimizer's state.
struct OptimizerArray {
  std::string name;  // as OptimizerState has it
  std::vector<float> values;
};

// What a training is at one step, in host memory.
struct TrainingState {
  v1::CheckpointManifest manifest;  // without `files`
  std::vector<float> values;        // in the model's layout
  // What the optimizer carries, in the order of Optimizer::state(); each in the model's layout.
  std::vector<OptimizerArray> optimizer;
};

struct WrittenCheckpoint {
  std::string path;
  std::string sha256;  // of its manifest
  int64_t bytes = 0;   // of all its files
};

// Where one job keeps its checkpoints below the `dir` of its job file. No other job's is the same,
// of another coordinator either, unless both were submitted in one millisecond.
std::string JobDirectory(const std::string& dir, JobId job, absl::Time submitted_at);

// The directory of a checkpoint. A later generation gives other names, so that what an earlier one
// still writes cannot take the place of anything.
struct CheckpointName {
  int64_t step = 0;
  uint64_t generation = 0;
  bool partial = false;  // being written, or left behind by a crash

  std::string ToString() const;
  // Absent where it is another file's.
  static std::optional<CheckpointName> Parse(absl::string_view name);
};

// Writes all files beside their place, syncs them, and moves the directory into its place in one
// step: after a crash it is there as a whole or not at all. What it had written before an error is
// removed. Errors: AlreadyExists; the system's.
absl::StatusOr<WrittenCheckpoint> WriteCheckpoint(const std::string& job_directory,
                                                  const TrainingState& state,
                                                  const engine::ParameterLayout& layout);

// Errors: DataLoss its hash is not `sha256`; Unimplemented the format of a later release.
absl::StatusOr<v1::CheckpointManifest> ReadManifest(const std::string& path,
                                                    const std::string& sha256);

// The tensors beside `manifest`, which ReadManifest gave. Errors: DataLoss a file is not what the
// manifest says, or has other tensors than `layout`, of the optimizer for each of `arrays`.
absl::StatusOr<TrainingState> ReadTensors(const std::string& path,
                                          const v1::CheckpointManifest& manifest,
                                          const engine::ParameterLayout& layout,
                                          const std::vector<std::string>& arrays);

}  // namespace dp::trainer
