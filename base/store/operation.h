#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

// What can be asked of a store, and the answers. Keys and values are bytes. A name may have a
// value, and beside it a queue; the two do not touch each other.

namespace dp {

struct StoreSet {
  std::string key, value;
};
struct StoreAppend {
  std::string key, value;
};
// Adds to the number that the value begins with, as strtoll reads it; 0 when absent.
struct StoreAdd {
  std::string key;
  int64_t amount = 0;
};
struct StoreCompareSet {
  std::string key, expected, desired;
};
struct StoreDelete {
  std::string key;
};
struct StoreQueuePush {
  std::string key, value;
};
// Takes the head, where there is one. To block: await a StoreQueueLength, then pop, and again when
// another was faster.
struct StoreQueuePop {
  std::string key;
};

// The reads. All but a list can be awaited until they are `found`: Store::Await.
struct StoreGet {
  std::string key;
};
// A queue that is not empty counts as present, too.
struct StoreCheck {
  std::vector<std::string> keys;
};
// Of values, not of queues.
struct StoreList {
  std::string prefix;
  bool keys = true;  // false: only how many
};
struct StoreQueueLength {
  std::string key;
};
// A barrier of `count` is passed: StoreAdd{key, 1} arrives at it, StoreReached{key, count} waits
// there. What is no number has been written by someone who wants all to pass.
struct StoreReached {
  std::string key;
  int64_t count = 0;
};
// The key has changed since a version that an earlier answer told.
struct StoreNewer {
  std::string key;
  uint64_t since = 0;
};

using StoreOperation = std::variant<StoreSet, StoreAppend, StoreAdd, StoreCompareSet, StoreDelete,
                                    StoreQueuePush, StoreQueuePop, StoreGet, StoreCheck, StoreList,
                                    StoreQueueLength, StoreReached, StoreNewer>;

struct StoreResult {
  // get: the key is present; delete, pop: there was one; check: all are; list, queue_length: not
  // empty; reached: it is; newer: it has changed; compare_set: it was set
  bool found = false;
  std::string value;   // get, newer, compare_set, pop
  int64_t number = 0;  // add, reached: the number; list: how many; push, queue_length: the
                       // length; pop: the length before; newer: 1 where present, else 0
  std::vector<std::string> keys;  // list; sorted
  // get, newer: of the key, which never goes back; 0 in the batch that changed it
  uint64_t version = 0;

  bool operator==(const StoreResult&) const = default;
};

// What the result takes in an answer, roughly.
inline size_t BytesOf(const StoreResult& result) {
  constexpr size_t kFraming = 16;
  size_t bytes = kFraming + result.value.size();
  for (const std::string& key : result.keys) bytes += kFraming + key.size();
  return bytes;
}

// Whether the operation leaves the store as it is.
inline bool IsRead(const StoreOperation& operation) {
  return operation.index() >= StoreOperation(StoreGet()).index();
}

}  // namespace dp
