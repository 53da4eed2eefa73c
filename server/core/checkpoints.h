#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/field_list.h"
#include "base/id.h"
#include "server/core/command.h"

namespace dp::core {

// A checkpoint as the coordinator knows it: where its files are, and which hash they must have.
struct Checkpoint {
  int64_t step = 0;  // optimizer steps done
  Generation generation;
  std::string path;
  std::string sha256;  // of its manifest, in hex
  int64_t bytes = 0;
  absl::Time at;

  using Fields = FieldList<&Checkpoint::step, &Checkpoint::generation, &Checkpoint::path,
                           &Checkpoint::sha256, &Checkpoint::bytes, &Checkpoint::at>;
};

// The file of a job's final weights.
struct Weights {
  std::string path;
  std::string sha256;  // in hex
  int64_t bytes = 0;
  // The time of the file, as its file system shows it. Absent in journals of releases without this
  // mark.
  std::optional<absl::Time> modified_at = {};

  using Fields =
      FieldList<&Weights::path, &Weights::sha256, &Weights::bytes, &Weights::modified_at>;

  bool operator==(const Weights&) const = default;
};

// The checkpoints of one job from which a generation may resume, in the order of their steps. Each
// registration bounds their number, to kCheckpointsKeptMax at most. Not thread-safe; part of a job.
class Checkpoints {
 public:
  // Makes the checkpoint the latest. Drops those at its step or beyond: the generation that made
  // them is over, and this one has trained those steps again. Then drops the oldest until `keep`
  // are left. Returns whether anything changed: a repetition, even a late one, is a no-op.
  bool Register(const RegisterCheckpoint& command, absl::Time at);

  // Null while there is none.
  const Checkpoint* latest() const { return all_.empty() ? nullptr : &all_.back(); }
  const std::vector<Checkpoint>& all() const { return all_; }
  // Restores the checkpoints of a snapshot.
  static Checkpoints Of(std::vector<Checkpoint> all);

 private:
  std::vector<Checkpoint> all_;  // by ascending step
};

// Errors: InvalidArgument names the field.
absl::Status CheckRegistration(const RegisterCheckpoint& command);
absl::Status CheckRegistration(const RegisterWeights& command);

}  // namespace dp::core
