#include "store/operation_bytes.h"

#include <string>
#include <variant>
#include <vector>

#include "base/overloaded.h"

namespace dp {
namespace {

size_t BytesOf(const std::vector<std::string>& keys) {
  constexpr size_t kFraming = 4;
  size_t bytes = 0;
  for (const std::string& key : keys) bytes += kFraming + key.size();
  return bytes;
}

}  // namespace

size_t BytesOf(const StoreOperation& operation) {
  constexpr size_t kFraming = 16;
  return kFraming +
         std::visit(Overloaded{[](const StoreCheck& check) { return BytesOf(check.keys); },
                               [](const StoreList& list) { return list.prefix.size(); },
                               [](const StoreCompareSet& set) {
                                 return set.key.size() + set.expected.size() + set.desired.size();
                               },
                               [](const auto& other) {
                                 size_t bytes = other.key.size();
                                 if constexpr (requires { other.value; })
                                   bytes += other.value.size();
                                 return bytes;
                               }},
                    operation);
}

}  // namespace dp
