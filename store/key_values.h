#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/field_list.h"
#include "store/operation.h"
#include "store/unmet.h"

namespace dp {

// Limits of one store. Keys and values come from programs that we do not control, and one job must
// not use up the memory of all.
struct KeyValueLimits {
  size_t key_bytes = size_t{8} << 10;      // one key, or the name of a queue
  size_t value_bytes = size_t{8} << 20;    // one value; an address book of thousands of ranks fits
  size_t keys = size_t{1} << 20;           // values and elements of queues altogether
  size_t total_bytes = size_t{256} << 20;  // all of them, with their keys

  using Fields = FieldList<&KeyValueLimits::key_bytes, &KeyValueLimits::value_bytes,
                           &KeyValueLimits::keys, &KeyValueLimits::total_bytes>;

  static constexpr KeyValueLimits None() {
    constexpr size_t kMost = std::numeric_limits<size_t>::max();
    return {kMost, kMost, kMost, kMost};
  }
};

// The maps behind every store of ours, and the meaning of each StoreOperation. Pure: the same
// batches give the same state, versions included. Not thread-safe; owned by one store.
class KeyValues {
 public:
  struct Entry {
    std::string value;
    uint64_t version = 0;  // the revision at which it was set
  };
  using Map = absl::btree_map<std::string, Entry, std::less<>>;
  using Queues = std::map<std::string, std::deque<std::string>, std::less<>>;

  static constexpr size_t kAnyAnswer = std::numeric_limits<size_t>::max();
  static constexpr char kSendLess[] = "send it in several";  // advice if an answer is too large

  struct Applied {
    std::vector<StoreResult> results;  // one per operation, in order
    // Names that waits depend on, sorted. `changed`: names whose value has changed or gone.
    // `pushed`: names of queues, once for each element that has entered and is still there.
    // `taken`: names of queues, once for each element that was taken.
    std::vector<std::string> changed;
    std::vector<std::string> pushed;
    std::vector<std::string> taken;
    bool any = false;  // something has changed
  };

  // All state that commands have made. A KeyValues can be made again from it and the limits.
  struct Contents {
    Map entries;
    Queues queues;  // no queue is empty
    uint64_t revision = 0;
    uint64_t deletion = 0;
  };

  explicit KeyValues(const KeyValueLimits& limits = {}) : limits_(limits) {}
  KeyValues(const KeyValueLimits& limits, Contents contents);

  // From now on. The store may already exceed the limits; it can then only shrink.
  void Limit(const KeyValueLimits& limits) { limits_ = limits; }

  // Applies the operations in order and atomically; later ones see the effects of earlier ones.
  // Errors: InvalidArgument an add to a value that does not begin with a 64-bit number;
  // ResourceExhausted a limit, or an answer above `answer_bytes_max`. The message for such an
  // answer ends in `remedy`. On an error nothing was applied.
  absl::StatusOr<Applied> Apply(absl::Span<const StoreOperation> operations,
                                size_t answer_bytes_max = kAnyAnswer,
                                absl::string_view remedy = kSendLess);
  // Answers a batch that only reads. Errors: InvalidArgument an operation that changes something;
  // ResourceExhausted the answer has more than `answer_bytes_max`.
  absl::StatusOr<std::vector<StoreResult>> Read(absl::Span<const StoreOperation> reads,
                                                size_t answer_bytes_max = kAnyAnswer) const;

  // Null when absent. Valid until the next Apply.
  const std::string* Find(absl::string_view key) const;
  // Whether the answer to the read is `found`. True for other operations, which need no wait.
  bool Found(const StoreOperation& read) const;
  // All that an await of `reads` still waits for, in the order asked; empty when all reads are
  // found. Other operations wait for nothing.
  std::vector<Unmet> Missing(absl::Span<const StoreOperation> reads) const;

  const KeyValueLimits& limits() const { return limits_; }
  // How many batches have changed something.
  uint64_t revision() const { return revision_; }
  // The revision at which a key was last deleted. It is the version of all absent keys, so none is
  // stored per key. A version that is too new only makes a watcher look once more.
  uint64_t deletion() const { return deletion_; }
  const Map& entries() const { return entries_; }
  const Queues& queues() const { return queues_; }  // no queue is empty
  // Bytes of all keys, values and queued elements.
  size_t bytes() const { return bytes_; }

 private:
  class Batch;
  class Reader;

  // Errors: ResourceExhausted the store has grown beyond a limit on the whole store.
  absl::Status CheckTotals(size_t keys_before, size_t bytes_before) const;

  KeyValueLimits limits_;
  Map entries_;
  Queues queues_;
  size_t queued_ = 0;  // elements of all queues
  size_t bytes_ = 0;
  uint64_t revision_ = 0;
  uint64_t deletion_ = 0;
};

}  // namespace dp
