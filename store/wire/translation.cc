#include "store/wire/translation.h"

#include <utility>

#include "base/check.h"

namespace dp::wire {
namespace {

std::vector<StoreOperation> SetsOf(std::vector<std::string> strings) {
  std::vector<StoreOperation> sets;
  sets.reserve(strings.size() / 2);
  for (size_t i = 0; i + 1 < strings.size(); i += 2)
    sets.push_back(StoreSet{std::move(strings[i]), std::move(strings[i + 1])});
  return sets;
}

StoreOperation OperationOf(Verb verb, std::vector<std::string>& s, int64_t number) {
  switch (verb) {
    case Verb::kSet:
      return StoreSet{std::move(s[0]), std::move(s[1])};
    case Verb::kCompareSet:
      return StoreCompareSet{std::move(s[0]), std::move(s[1]), std::move(s[2])};
    case Verb::kGet:
    case Verb::kWatchKey:
      return StoreGet{std::move(s[0])};
    case Verb::kAdd:
      return StoreAdd{std::move(s[0]), number};
    case Verb::kCheck:
      return StoreCheck{std::move(s)};
    case Verb::kNumKeys:
      return StoreList{.keys = false};
    case Verb::kListKeys:
      return StoreList{};
    case Verb::kDeleteKey:
      return StoreDelete{std::move(s[0])};
    case Verb::kAppend:
      return StoreAppend{std::move(s[0]), std::move(s[1])};
    case Verb::kQueuePush:
      return StoreQueuePush{std::move(s[0]), std::move(s[1])};
    case Verb::kQueuePop:
      return StoreQueuePop{std::move(s[0])};
    case Verb::kQueueLen:
      return StoreQueueLength{std::move(s[0])};
    case Verb::kValidate:
    case Verb::kWait:
    case Verb::kMultiGet:
    case Verb::kMultiSet:
    case Verb::kCancelWait:
    case Verb::kPing:
    case Verb::kBarrier:
      break;
  }
  DP_CHECK(!"no single operation of a store");
  return StoreList{};
}

}  // namespace

std::vector<StoreOperation> OperationsOf(Verb verb, Fields fields) {
  if (verb == Verb::kMultiSet) return SetsOf(std::move(fields.strings));
  std::vector<StoreOperation> operations;
  operations.push_back(OperationOf(verb, fields.strings, fields.number));
  return operations;
}

std::vector<StoreOperation> ReadsOf(std::vector<std::string> keys) {
  std::vector<StoreOperation> reads;
  reads.reserve(keys.size());
  for (std::string& key : keys) {
    StoreCheck check;
    check.keys.push_back(std::move(key));
    reads.push_back(std::move(check));
  }
  return reads;
}

void AppendReply(Verb verb, absl::Span<const StoreResult> results, std::string* out) {
  switch (verb) {
    case Verb::kSet:
    case Verb::kAppend:
    case Verb::kMultiSet:
    case Verb::kQueuePush:
    case Verb::kValidate:
    case Verb::kPing:        // answered without a store,
    case Verb::kCancelWait:  // likewise
      return;
    case Verb::kCompareSet:
    case Verb::kGet:
      return AppendString(results[0].value, out);
    case Verb::kAdd:
    case Verb::kNumKeys:
    case Verb::kQueueLen:
      return AppendNumber(results[0].number, out);
    case Verb::kCheck:
      return out->push_back(results[0].found ? kReady : kNotReady);
    case Verb::kWait:
    case Verb::kBarrier:
      return out->push_back(kStopWaiting);
    case Verb::kWatchKey:
      return out->push_back(kWatching);
    case Verb::kDeleteKey:
      return AppendNumber(results[0].found ? 1 : 0, out);
    case Verb::kMultiGet:
      for (const StoreResult& result : results) AppendString(result.value, out);
      return;
    case Verb::kQueuePop:
      AppendNumber(results[0].number, out);
      if (results[0].found) AppendString(results[0].value, out);
      return;
    case Verb::kListKeys:
      AppendNumber(static_cast<int64_t>(results[0].keys.size()), out);
      for (const std::string& key : results[0].keys) AppendString(key, out);
      return;
  }
}

}  // namespace dp::wire
