#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

// What can be asked of a store, and the answers. Keys and values are bytes.

namespace dp {

struct StoreSet {
  std::string key, value;
};
struct StoreGet {
  std::string key;
};
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
struct StoreCheck {
  std::vector<std::string> keys;
};
using StoreOperation =
    std::variant<StoreSet, StoreGet, StoreAdd, StoreCompareSet, StoreDelete, StoreCheck>;

struct StoreResult {
  bool found =
      false;  // get: the key is present; delete: it was; check: all are; compare_set: it was set
  std::string value;   // get, compare_set
  int64_t number = 0;  // add

  bool operator==(const StoreResult&) const = default;
};

}  // namespace dp
