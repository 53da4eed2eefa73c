#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/core/command.h"
#include "server/core/outcome.h"
#include "store/key_values.h"

namespace dp::core {

// The store of one generation of a job. A repeated batch has no second effect: the store remembers
// its last answer to each client. Exists while its generation's world is open. Not thread-safe;
// owned by the Coordinator.
//
// A batch of groups that writes may begin with reads of more than the store keeps. The store then
// answers these reads alone, and keeps only the sequence. A client that asks again has had no
// answer, and gets what the reads find by then. Reads of that size behind a write are left for the
// next batch.
class GenerationStore {
 public:
  // One per rank, relay and thread that writes; each holds its last answer in memory.
  static constexpr size_t kClientsMax = 100'000;
  static constexpr size_t kOperationsMax = 10'000;
  // The answer to a batch of groups ends once it has so many bytes. Its last result may be much
  // larger: a value has up to 8 MiB, and a list may have more. Both limits together fit into a
  // message of 20 MiB.
  static constexpr size_t kAnswerBytesMax = size_t{4} << 20;
  static constexpr size_t kResultBytesMax = size_t{12} << 20;
  // With kBounded. Small reads may stand beside writes in one batch, as when ranks exchange
  // addresses. Large reads cost a batch of their own.
  static constexpr size_t kKeptReadBytesMax = size_t{64} << 10;
  // The answer to a batch without groups: room for two values.
  static constexpr size_t kOneAnswerBytesMax = size_t{17} << 20;
  // With kBounded: a small answer is always kept. A larger one is kept only while the large answers
  // to other clients are below the store's limit on bytes. Otherwise many clients that compare
  // large values would hold many times what the store may.
  static constexpr size_t kSmallAnswerBytesMax = size_t{4} << 10;

  struct Applied {
    GroupResults answer;               // rejections only if the batch has groups
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
  // Restores a store.
  GenerationStore(KeyValues values, Clients clients, KeptAnswers kept);

  // Applies a batch. Groups are applied as far as their answer fits (kAnswerBytesMax). The answer
  // ends after a group or, in a batch that only reads, after an operation.
  // Errors: FailedPrecondition a sequence older than the client's last; DataLoss, with groups, a
  // sequence that does not follow it. InvalidArgument a write without client and sequence, or
  // groups that do not add up to the operations. ResourceExhausted kClientsMax, kOperationsMax, or
  // no room for the answer. Without groups also those of KeyValues::Apply.
  absl::StatusOr<Applied> Apply(const StoreBatch& batch);

  // Holds from now on.
  void Limit(const KeyValueLimits& limits, KeptAnswers kept);

  const KeyValues& values() const { return values_; }
  const Clients& clients() const { return clients_; }
  // The bytes of the kept answers that are not small.
  size_t kept_bytes() const { return kept_bytes_; }

 private:
  using Operations = absl::Span<const StoreOperation>;

  // The answer to groups, in the making.
  struct Answer {
    Applied all;
    size_t kept_max = KeyValues::kAnyAnswer;  // the most that can be kept of it
    size_t bytes = 0;
    size_t read_bytes = 0;
    bool wrote = false;  // or was rejected
    bool full = false;
    bool kept = true;
  };

  static absl::Status CheckShape(const StoreBatch& batch);
  // How large an answer may be kept for the client, given those kept for the others.
  size_t KeptMax(uint64_t client) const;
  std::string WhyNoRoom() const;
  void Keep(uint64_t client, LastAnswer answer);
  absl::StatusOr<Applied> ApplyAsOne(const StoreBatch& batch);
  Applied Repeat(const StoreBatch& batch, const GroupResults& answer);
  // With `only_reads`: stops before the first group that writes.
  Answer ApplyGroups(const StoreBatch& batch, bool only_reads);
  absl::Status ApplyGroup(Operations operations, Answer* answer);
  absl::Status ReadUntilFull(Operations operations, Answer* answer) const;

  KeyValues values_;
  Clients clients_;
  KeptAnswers kept_;
  size_t kept_bytes_ = 0;  // of clients_
};

}  // namespace dp::core
