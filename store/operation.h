#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/field_list.h"

// Operations on a store, and their results. Keys and values are bytes. A name may have a value and
// also a queue, independent of each other.

namespace dp {

struct StoreSet {
  std::string key, value;

  using Fields = FieldList<&StoreSet::key, &StoreSet::value>;
};
struct StoreAppend {
  std::string key, value;

  using Fields = FieldList<&StoreAppend::key, &StoreAppend::value>;
};
// Adds to the number at the start of the value, as strtoll reads it; 0 when absent.
struct StoreAdd {
  std::string key;
  int64_t amount = 0;

  using Fields = FieldList<&StoreAdd::key, &StoreAdd::amount>;
};
struct StoreCompareSet {
  std::string key, expected, desired;

  using Fields =
      FieldList<&StoreCompareSet::key, &StoreCompareSet::expected, &StoreCompareSet::desired>;
};
struct StoreDelete {
  std::string key;

  using Fields = FieldList<&StoreDelete::key>;
};
struct StoreQueuePush {
  std::string key, value;

  using Fields = FieldList<&StoreQueuePush::key, &StoreQueuePush::value>;
};
// Takes the head, if there is one. To block, await a StoreQueueLength, then pop; repeat if another
// caller was faster.
struct StoreQueuePop {
  std::string key;

  using Fields = FieldList<&StoreQueuePop::key>;
};

// The reads. All but a list can be awaited until they are `found` (Store::Await).
struct StoreGet {
  std::string key;
};
// A queue that is not empty counts as present, too.
struct StoreCheck {
  std::vector<std::string> keys;
};
// Lists values, not queues.
struct StoreList {
  std::string prefix;
  bool keys = true;  // false: only the number of keys
};
struct StoreQueueLength {
  std::string key;
};
// Whether `count` have arrived at a barrier. StoreAdd{key, 1} arrives, an await of
// StoreReached{key, count} waits. A value that is no number lets everybody pass: somebody wrote it
// for that purpose.
struct StoreReached {
  std::string key;
  int64_t count = 0;
};
// Whether the key has changed since a version from an earlier answer.
struct StoreNewer {
  std::string key;
  uint64_t since = 0;
};

// Changes come first. Files of FileStore hold the place of a change in this list.
using StoreOperation = std::variant<StoreSet, StoreAppend, StoreAdd, StoreCompareSet, StoreDelete,
                                    StoreQueuePush, StoreQueuePop, StoreGet, StoreCheck, StoreList,
                                    StoreQueueLength, StoreReached, StoreNewer>;

struct StoreResult {
  // get, check: present; delete, pop: there was one; list, queue_length: not empty; reached: at
  // least `count`; newer: it has changed; compare_set: it was set
  bool found = false;
  std::string value;   // get, newer, compare_set, pop
  int64_t number = 0;  // add, reached: the number; list: how many; push, queue_length: the
                       // length; pop: the length before; newer: 1 where present, else 0
  std::vector<std::string> keys;  // list; sorted
  // get, newer: the version of the key, which never goes back; 0 in the batch that changed the key
  uint64_t version = 0;

  bool operator==(const StoreResult&) const = default;
};

// Roughly the result's size in an answer.
inline size_t BytesOf(const StoreResult& result) {
  constexpr size_t kFraming = 16;
  size_t bytes = kFraming + result.value.size();
  for (const std::string& key : result.keys) bytes += kFraming + key.size();
  return bytes;
}

// Whether the operation leaves the store unchanged.
inline bool IsRead(const StoreOperation& operation) {
  return operation.index() >= StoreOperation(StoreGet()).index();
}

}  // namespace dp
