#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/store/key_values.h"
#include "server/core/command.h"
#include "server/core/outcome.h"

namespace dp::core {

class Digest;

// The store of one generation of a job, where a repeated batch has no second effect: the last
// answer to each client is remembered. Lives as long as its generation's world is open. Not
// thread-safe; owned by the Coordinator.
//
// A batch of groups that writes may begin with reads of more than is kept. Then these alone are
// answered, and nothing is kept but the sequence: who asks again has had no answer, and is told
// what the reads find by then. Reads of so much behind a write are left for the next batch.
class GenerationStore {
 public:
  // One per rank, relay and thread that writes; each holds its last answer in memory.
  static constexpr size_t kClientsMax = 100'000;
  static constexpr size_t kOperationsMax = 10'000;
  // Once the answer to a batch of groups has so much, it ends. One more result may be much larger:
  // a value has up to 8 MiB, and a list may have more. Both fit into a message of 20 MiB.
  static constexpr size_t kAnswerBytesMax = size_t{4} << 20;
  static constexpr size_t kResultBytesMax = size_t{12} << 20;
  // With kBounded. Small reads beside writes go on in one batch, as those of ranks that tell each
  // other their addresses do; large ones cost a batch of their own.
  static constexpr size_t kKeptReadBytesMax = size_t{64} << 10;
  // Of a batch without groups: two values.
  static constexpr size_t kOneAnswerBytesMax = size_t{17} << 20;
  // With kBounded: an answer of no more is kept whatever is kept for other clients. One of more is
  // not while these have the store's limit on bytes; else many clients that compare large values
  // would hold many times what the store may.
  static constexpr size_t kSmallAnswerBytesMax = size_t{4} << 10;

  struct Applied {
    GroupResults answer;               // without refusals, unless the batch has groups
    std::vector<std::string> changed;  // as in KeyValues::Applied; of all groups, sorted
    std::vector<std::string> pushed;   // likewise
    std::vector<std::string> taken;    // likewise
    bool recorded = false;             // false: a read or a repetition, nothing to journal
  };

  struct LastAnswer {
    uint64_t sequence = 0;
    GroupResults answer;
  };
  using Clients = std::map<uint64_t, LastAnswer>;

  explicit GenerationStore(const KeyValueLimits& limits = {},
                           KeptAnswers kept = KeptAnswers::kBounded)
      : values_(limits), kept_(kept) {}
  // As it was, from what it held.
  GenerationStore(KeyValues values, Clients clients, KeptAnswers kept);

  // A batch of groups is taken as far as its answer fits (kAnswerBytesMax); it ends after a group
  // or, in one that only reads, after an operation.
  // Errors: FailedPrecondition an older sequence than the client's last; DataLoss, with groups, one
  // that does not follow it; InvalidArgument a write without client and sequence, groups that are
  // not the operations'; those of KeyValues::Apply, without groups; ResourceExhausted kClientsMax,
  // kOperationsMax, an answer for which there is no room.
  absl::StatusOr<Applied> Apply(const StoreBatch& batch);

  // From now on.
  void Limit(const KeyValueLimits& limits, KeptAnswers kept);

  const KeyValues& values() const { return values_; }
  const Clients& clients() const { return clients_; }
  // Of the answers in there that are not small.
  size_t kept_bytes() const { return kept_bytes_; }
  void AddTo(Digest& digest) const;

 private:
  using Operations = absl::Span<const StoreOperation>;

  // An answer to groups that is being made.
  struct Answer {
    Applied all;
    size_t kept_max = KeyValues::kAnyAnswer;  // when it is going to be kept
    size_t bytes = 0;
    size_t read_bytes = 0;
    bool wrote = false;  // or was refused to
    bool full = false;
    bool kept = true;
  };

  static absl::Status CheckShape(const StoreBatch& batch);
  // How large an answer may be kept for the client, beside those of the others.
  size_t KeptMax(uint64_t client) const;
  std::string WhyNoRoom() const;
  void Keep(uint64_t client, LastAnswer answer);
  absl::StatusOr<Applied> ApplyAsOne(const StoreBatch& batch);
  Applied Repeat(const StoreBatch& batch, const GroupResults& answer);
  // With `only_reads`: those before the first group that writes.
  Answer ApplyGroups(const StoreBatch& batch, bool only_reads);
  absl::Status ApplyGroup(Operations operations, Answer* answer);
  absl::Status ReadUntilFull(Operations operations, Answer* answer) const;

  KeyValues values_;
  Clients clients_;
  KeptAnswers kept_;
  size_t kept_bytes_ = 0;  // as clients_ has it
};

}  // namespace dp::core
