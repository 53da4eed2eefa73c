#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/store/key_values.h"
#include "server/core/command.h"

namespace dp::core {

class Digest;

// The store of one generation of a job, where a repeated batch has no second effect: the last
// answer to each client is remembered. Lives as long as its generation's world is open. Not
// thread-safe; owned by the Coordinator.
class GenerationStore {
 public:
  // One per rank, relay and thread that writes; each holds its last answer in memory.
  static constexpr size_t kClientsMax = 100'000;
  static constexpr size_t kOperationsMax = 10'000;

  struct Applied {
    std::vector<StoreResult> results;
    std::vector<std::string> changed;  // keys
    bool recorded = false;             // false: a read or a repetition, nothing to journal
  };

  explicit GenerationStore(const KeyValueLimits& limits = {}) : values_(limits) {}

  // Errors: FailedPrecondition an older sequence than the client's last; InvalidArgument a write
  // without client and sequence; those of KeyValues::Apply; ResourceExhausted kClientsMax.
  absl::StatusOr<Applied> Apply(const StoreBatch& batch);

  // From now on. Not part of the state: a journal replays without, whatever they were.
  void Limit(const KeyValueLimits& limits) { values_.Limit(limits); }

  const KeyValues& values() const { return values_; }
  void AddTo(Digest& digest) const;

 private:
  struct LastAnswer {
    uint64_t sequence = 0;
    std::vector<StoreResult> results;
  };

  static absl::Status CheckShape(const StoreBatch& batch);

  KeyValues values_;
  std::map<uint64_t, LastAnswer> clients_;
};

}  // namespace dp::core
