#include "store/key_values_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "base/check.h"
#include "base/overloaded.h"

namespace dp {

bool LeadingNumber(const std::string& text, int64_t* number) {
  char* end = nullptr;
  errno = 0;
  *number = std::strtoll(text.c_str(), &end, 10);
  return errno == 0 && end != text.c_str();
}

bool KeyValues::Reader::Present(const std::string& name) const {
  return store_.Find(name) != nullptr || store_.queues_.contains(name);
}

StoreResult KeyValues::Reader::Run(const StoreGet& get) const {
  const auto entry = store_.entries_.find(get.key);
  if (entry == store_.entries_.end()) return {.version = store_.deletion_};
  return {.found = true, .value = entry->second.value, .version = entry->second.version};
}

StoreResult KeyValues::Reader::Run(const StoreCheck& check) const {
  return {.found = std::all_of(check.keys.begin(), check.keys.end(),
                               [this](const std::string& key) { return Present(key); })};
}

StoreResult KeyValues::Reader::Run(const StoreList& list) const {
  StoreResult result;
  auto entry = store_.entries_.lower_bound(list.prefix);
  for (; entry != store_.entries_.end() && absl::StartsWith(entry->first, list.prefix); ++entry) {
    ++result.number;
    if (list.keys) result.keys.push_back(entry->first);
  }
  result.found = result.number > 0;
  return result;
}

StoreResult KeyValues::Reader::Run(const StoreQueueLength& length) const {
  const auto queue = store_.queues_.find(length.key);
  if (queue == store_.queues_.end()) return {};
  return {.found = true, .number = static_cast<int64_t>(queue->second.size())};
}

StoreResult KeyValues::Reader::Run(const StoreReached& reached) const {
  StoreResult result;
  const std::string* value = store_.Find(reached.key);
  const bool counts = value == nullptr || LeadingNumber(*value, &result.number);
  result.found = !counts || result.number >= reached.count;
  return result;
}

StoreResult KeyValues::Reader::Run(const StoreNewer& newer) const {
  StoreResult result = Run(StoreGet{newer.key});
  result.number = result.found ? 1 : 0;
  result.found = result.version > newer.since;
  return result;
}

StoreResult KeyValues::Reader::Answer(const StoreOperation& read) const {
  DP_CHECK(IsRead(read));
  return std::visit(
      [this](const auto& verb) {
        if constexpr (requires { Run(verb); }) return Run(verb);
        return StoreResult();
      },
      read);
}

bool KeyValues::Reader::Found(const StoreOperation& read) const {
  return std::visit(
      Overloaded{[this](const StoreGet& get) { return store_.Find(get.key) != nullptr; },
                 [this](const auto& verb) {
                   if constexpr (requires { Run(verb); }) return Run(verb).found;
                   return true;
                 }},
      read);
}

void KeyValues::Reader::Explain(const StoreOperation& read, std::vector<Unmet>& unmet) const {
  using What = Unmet::What;
  if (Found(read)) return;
  const auto add = [&](Unmet one) { unmet.push_back(std::move(one)); };
  std::visit(Overloaded{[&](const StoreCheck& check) {
                          for (const std::string& key : check.keys)
                            if (!Present(key)) add({What::kKey, key});
                        },
                        [&](const StoreList& list) {
                          add({What::kKey, list.prefix + "*"});
                        },
                        [&](const StoreQueueLength& length) {
                          add({What::kQueue, length.key});
                        },
                        [&](const StoreReached& reached) {
                          add({What::kBarrier, reached.key, Run(reached).number, reached.count});
                        },
                        [&](const StoreNewer& newer) {
                          add({What::kChange, newer.key});
                        },
                        [&](const auto& verb) {
                          add({What::kKey, verb.key});
                        }},
             read);
}

}  // namespace dp
