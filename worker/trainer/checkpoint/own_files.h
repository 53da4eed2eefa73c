#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/id.h"
#include "dp/v1/checkpoints.pb.h"
#include "worker/trainer/checkpoint/checkpoint_files.h"

// Which files dp wrote for which job (docs/checkpoints.md, Whose file is whose). Pure.

namespace dp::trainer {

// A file of weights that is not in its place. Its name says which job wrote it.
struct WeightsBeside {
  // Before: a rank writes the file, or has written it. Placing: the rank moves the file to its
  // place. A file of this name may also be the one that was in that place before.
  enum class Phase { kBefore, kPlacing };
  Generation generation;
  Phase phase = Phase::kBefore;

  // The rest of the name, behind that of the place. `job` is a JobLabel.
  std::string Suffix(absl::string_view job) const;
  // Nullopt for the suffix of any other file, and of another job's.
  static std::optional<WeightsBeside> Parse(absl::string_view suffix, absl::string_view job);

  bool operator==(const WeightsBeside&) const = default;
};

// Whether `suffix` belongs to a temporary file of a release that did not name the job.
bool IsNamelessWeightsSuffix(absl::string_view suffix);

// A file as a look at it has found it, without following a symbolic link.
struct FoundFile {
  enum class Kind { kRegular, kDirectory, kSymbolicLink, kOther };
  Kind kind = Kind::kRegular;
  int64_t bytes = 0;
  absl::Time modified_at = {};
  // Reads a regular file, so it is called last and only if it can decide. Errors: the system's.
  std::function<absl::StatusOr<std::string>()> sha256 = [] { return std::string(); };
};

// Each returns OK if dp wrote the file for the job. Errors: FailedPrecondition says in words why it
// does not count as such a file; others are those of FoundFile::sha256.

// Any file without contents to compare, by its kind.
absl::Status CheckKind(const FoundFile& file, FoundFile::Kind expected);

// The checkpoint `name` in the directory of `job`, which has `manifest`.
absl::Status CheckManifest(JobId job, const CheckpointName& name,
                           const v1::CheckpointManifest& manifest);

// The file `name` in a complete checkpoint, except its manifest.
absl::Status CheckInCheckpoint(const v1::CheckpointManifest& manifest, absl::string_view name,
                               const FoundFile& file);

// The file `name` in a checkpoint that was never completed. The name of the directory proves the
// job.
absl::Status CheckInPartial(absl::string_view name, const FoundFile& file);

// A file at the place of the weights, or beside it with Phase::kPlacing, by the coordinator's
// record. A file with the same bytes may be another job's, so its time must agree, too.
absl::Status CheckWeights(const v1::FileRemoval& removal, const FoundFile& file);

}  // namespace dp::trainer
