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
#include "proto/weights/safetensors.h"
#include "worker/engine/nn/parameter.h"

namespace dp::trainer {

// A checkpoint on disk (docs/checkpoints.md) is a directory with model.safetensors,
// optimizer.safetensors and manifest.json. The manifest holds the hashes of the other two files;
// the coordinator records the manifest's own hash. Errors name the path and the system's reason.

// One array of an optimizer's state.
struct OptimizerArray {
  std::string name;  // as in OptimizerState
  std::vector<float> values;
};

// With local SGD: the outer optimizer's velocity, and the array of another rank's optimizer, whose
// state is its own. Those of rank 0 have their plain names.
inline constexpr char kOuterVelocity[] = "outer_velocity";
std::string NameOfPeersArray(int rank, absl::string_view array);

// The state of a training after one step, in host memory.
struct TrainingState {
  v1::CheckpointManifest manifest;  // without `files`
  std::vector<float> values;        // in the model's layout
  // The optimizer's state, in the order of Optimizer::state(); each array in the model's layout.
  std::vector<OptimizerArray> optimizer;
  SafetensorsMetadata description = {};  // of the model, beside its values
};

struct WrittenCheckpoint {
  std::string path;
  std::string sha256;  // the manifest's hash
  int64_t bytes = 0;   // in all files
};

// The name of a job in file names, as "job-7-20261121T161132.123Z". Jobs of different coordinators
// have different names too, unless both were submitted in the same millisecond.
std::string JobLabel(JobId job, absl::Time submitted_at);

// The directory of a job's checkpoints, below `dir` of its job file: its JobLabel.
std::string JobDirectory(const std::string& dir, JobId job, absl::Time submitted_at);

// The name of a checkpoint's directory. It contains the generation, so a late write of an earlier
// generation cannot replace anything.
struct CheckpointName {
  int64_t step = 0;
  uint64_t generation = 0;
  bool partial = false;  // being written, or left behind by a crash

  std::string ToString() const;
  // Nullopt for the name of any other file.
  static std::optional<CheckpointName> Parse(absl::string_view name);
};

// Writes all files to a partial directory, syncs them, and renames the directory to its place.
// After a crash the checkpoint is there as a whole or not at all. Removes the partial directory on
// an error.
// Errors: AlreadyExists or FailedPrecondition (it depends on the file system) this checkpoint is
// there; others are the system's.
absl::StatusOr<WrittenCheckpoint> WriteCheckpoint(const std::string& job_directory,
                                                  const TrainingState& state,
                                                  const engine::ParameterLayout& layout);

// Errors: DataLoss its hash is not `sha256`, or it is no manifest; Unimplemented it has the format
// of a later release; others are the system's.
absl::StatusOr<v1::CheckpointManifest> ReadManifest(const std::string& path,
                                                    const std::string& sha256);

// The files of a checkpoint beside its manifest.
inline constexpr char kManifestFile[] = "manifest.json";
inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kOptimizerFile[] = "optimizer.safetensors";
// The empty file with which a saver tries whether it can write the job's directory.
inline constexpr char kProbeName[] = "probe";
inline constexpr char kProbeSuffix[] = ".tmp";
// A manifest has some hundred bytes per tensor; a larger file is something else.
inline constexpr int64_t kManifestBytesMax = 64 << 20;

// Parses the contents of a manifest; `file` is its path, for errors. Errors: DataLoss it is no
// manifest; Unimplemented it has the format of a later release.
absl::StatusOr<v1::CheckpointManifest> ParseManifest(const std::string& file,
                                                     const std::string& json);

// The contents of a file of a checkpoint, such as kModelFile. Errors: DataLoss the file does not
// match the manifest; others are the system's.
absl::StatusOr<std::string> ReadCheckpointFile(const std::string& directory,
                                               const v1::CheckpointManifest& manifest,
                                               absl::string_view name);

// Reads the tensors beside `manifest`, as ReadManifest returned it. `arrays` names the optimizer's
// arrays. Errors: DataLoss a file does not match the manifest, or a tensor of `layout` is missing
// or has another size; others are the system's.
absl::StatusOr<TrainingState> ReadTensors(const std::string& path,
                                          const v1::CheckpointManifest& manifest,
                                          const engine::ParameterLayout& layout,
                                          const std::vector<std::string>& arrays);

}  // namespace dp::trainer
