#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "store/key_values_reader.h"

namespace dp {

// One batch in progress. It changes the store in place and records how to undo each step, so a
// batch costs only its own operations. Owned by one Apply, which ends it with Commit or Undo. The
// operations must outlive it.
class KeyValues::Batch {
 public:
  explicit Batch(KeyValues& store) : store_(store) {}

  // Errors: as KeyValues::Apply, without the limits on the whole store.
  absl::StatusOr<StoreResult> Run(const StoreOperation& operation);
  // Sets the versions of changed keys, and adds the changed names to `applied`.
  void Commit(Applied* applied);
  void Undo();

 private:
  struct Step {
    enum class What { kValue, kPush, kPop };
    What what = What::kValue;
    const std::string* key = nullptr;  // of the operation
    std::optional<Entry> before;       // with kValue
    std::string element;               // with kPop
    // With kValue that has set a value: its place, valid while moves_ equals `moves`.
    Map::iterator entry = {};
    size_t moves = 0;
  };

  // One overload for each change, with its meaning.
  struct Meaning;

  // Errors: ResourceExhausted a limit on one key or value.
  absl::Status CheckSizes(const std::string& key, size_t value_bytes) const;
  absl::Status Put(const std::string& key, std::string value);
  void Push(const std::string& key, std::string element, bool at_head);
  std::string Pop(const std::string& key, bool from_head);
  // Restores the value or its absence, and the count of bytes.
  void Restore(const std::string& key, std::optional<Entry> before);
  void UndoStep(Step step);
  // How many of the last `pushes` elements are still there.
  size_t Left(const std::string& queue, size_t pushes) const;
  // Sets the version of the key whose value the `last` step left. Returns whether the value differs
  // from `before` the batch.
  bool Settle(const Step& last, const std::optional<Entry>& before);
  // The value that the step has left, or the end.
  Map::iterator EntryOf(const Step& step);

  KeyValues& store_;
  size_t moves_ = 1;                    // values added or removed, either of which moves others
  absl::InlinedVector<Step, 1> steps_;  // most batches have one operation
};

}  // namespace dp
