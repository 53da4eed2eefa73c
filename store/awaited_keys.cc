#include "store/awaited_keys.h"

#include <variant>

#include "base/overloaded.h"

namespace dp {

absl::StatusOr<std::vector<std::string>> AwaitedKeys(absl::Span<const StoreOperation> reads) {
  std::vector<std::string> keys;
  for (const StoreOperation& read : reads) {
    if (!IsRead(read) || std::holds_alternative<StoreList>(read)) {
      return absl::InvalidArgumentError(
          "a store operation that changes something, or lists, cannot be awaited");
    }
    std::visit(
        Overloaded{[&](const StoreCheck& check) {
                     keys.insert(keys.end(), check.keys.begin(), check.keys.end());
                   },
                   [](const StoreList&) {}, [&](const auto& verb) { keys.push_back(verb.key); }},
        read);
  }
  return keys;
}

}  // namespace dp
