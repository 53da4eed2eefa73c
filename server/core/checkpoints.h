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
  // The metric of the best one and its value, in the rank's words. Empty for all others.
  std::string best = {};

  using Fields =
      FieldList<&Checkpoint::step, &Checkpoint::generation, &Checkpoint::path, &Checkpoint::sha256,
                &Checkpoint::bytes, &Checkpoint::at, &Checkpoint::best>;
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

// The checkpoints of one job from which a generation may resume: the latest ones in the order of
// their steps, and the best one. Each registration bounds the number of the former, to
// kCheckpointsKeptMax at most. Not thread-safe; part of a job.
class Checkpoints {
 public:
  // Makes the checkpoint the latest. Drops those at its step or beyond: the generation that made
  // them is over, and this one has trained those steps again. Then drops the oldest until `keep`
  // are left. If the command says so, the checkpoint is also the best from now on; it then stays
  // until another one is. Returns whether anything changed: a repetition, even a late one, is a
  // no-op.
  bool Register(const RegisterCheckpoint& command, absl::Time at);

  // Null while there is none.
  const Checkpoint* latest() const { return all_.empty() ? nullptr : &all_.back(); }
  // The latest ones.
  const std::vector<Checkpoint>& all() const { return all_; }
  // Null while there is none. It may be among the latest, too.
  const Checkpoint* best() const { return best_ ? &*best_ : nullptr; }
  // Restores the checkpoints of a snapshot.
  static Checkpoints Of(std::vector<Checkpoint> all, std::optional<Checkpoint> best = {});

 private:
  bool RegisterLatest(const RegisterCheckpoint& command, absl::Time at);
  bool RegisterBest(const RegisterCheckpoint& command, absl::Time at);

  std::vector<Checkpoint> all_;  // by ascending step
  std::optional<Checkpoint> best_;
};

// Errors: InvalidArgument names the field.
absl::Status CheckRegistration(const RegisterCheckpoint& command);
absl::Status CheckRegistration(const RegisterWeights& command);

}  // namespace dp::core
