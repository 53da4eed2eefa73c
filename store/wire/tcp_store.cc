#include "store/wire/tcp_store.h"

#include <algorithm>
#include <cstdlib>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/overloaded.h"
#include "base/status.h"
#include "store/awaited_keys.h"
#include "store/unmet.h"
#include "store/wire/deadline.h"

namespace dp::wire {
namespace {

// The protocol can only wait until a key exists. Waits for a number or for a change of a value poll
// instead, as PyTorch's own barrier does.
constexpr absl::Duration kPoll = absl::Milliseconds(10);

bool StartsWithNumber(const std::string& text, int64_t* number) {
  char* end = nullptr;
  *number = std::strtoll(text.c_str(), &end, 10);
  return end != text.c_str();
}

Unmet UnmetOf(const StoreOperation& read, const StoreResult& now) {
  using What = Unmet::What;
  return std::visit(
      Overloaded{[&](const StoreReached& reached) {
                   return Unmet{What::kBarrier, reached.key, now.number, reached.count};
                 },
                 [](const StoreQueueLength& length) {
                   return Unmet{What::kQueue, length.key};
                 },
                 [](const StoreList& list) {
                   return Unmet{What::kKey, list.prefix + "*"};
                 },
                 [](const StoreCheck& check) {
                   return Unmet{What::kKey, check.keys.front()};
                 },
                 [](const auto& other) {
                   return Unmet{What::kKey, other.key};
                 }},
      read);
}

// Splits a check of many keys into checks of one, so that a message can name the missing keys.
std::vector<StoreOperation> OneKeyEach(absl::Span<const StoreOperation> reads) {
  std::vector<StoreOperation> single;
  for (const StoreOperation& read : reads) {
    if (const auto* check = std::get_if<StoreCheck>(&read))
      for (const std::string& key : check->keys) single.push_back(StoreCheck{{key}});
    else
      single.push_back(read);
  }
  return single;
}

absl::Status NoVerb(Verb verb) {
  return absl::UnimplementedError(absl::StrCat("the store's dialect has no ", NameOf(verb)));
}

absl::Status NoVersions() {
  return absl::UnimplementedError("the TCPStore protocol has no versions to watch");
}

// Whether the server can answer the read once its key exists; if not, a wait is pointless.
absl::Status CheckKnown(const StoreOperation& read, Dialect dialect) {
  if (std::holds_alternative<StoreNewer>(read)) return NoVersions();
  const bool queue = std::holds_alternative<StoreQueueLength>(read);
  return queue && !CodeOf(Verb::kQueueLen, dialect) ? NoVerb(Verb::kQueueLen) : absl::OkStatus();
}

}  // namespace

class TcpStore::Calls {
 public:
  Calls(TcpConnection& connection, const TcpStoreOptions& options)
      : connection_(connection), options_(options) {}

  absl::StatusOr<StoreResult> Run(const StoreOperation& operation) {
    return std::visit([this](const auto& verb) { return Run(verb); }, operation);
  }
  absl::StatusOr<std::vector<StoreResult>> RunAll(absl::Span<const StoreOperation> operations) {
    std::vector<StoreResult> results;
    for (const StoreOperation& operation : operations) {
      DP_ASSIGN_OR_RETURN(StoreResult result, Run(operation));
      results.push_back(std::move(result));
    }
    return results;
  }
  // Waits until all names are present.
  absl::Status Wait(const std::vector<std::string>& names, absl::Duration timeout) {
    if (names.empty()) return absl::OkStatus();
    std::vector<std::string> keys;
    for (const std::string& name : names) keys.push_back(KeyOf(name));
    return connection_.Wait(std::move(keys), timeout);
  }

 private:
  std::string KeyOf(const std::string& name) const { return options_.prefix + name; }
  absl::StatusOr<Fields> Call(Verb verb, std::vector<std::string> strings, int64_t number = 0) {
    return connection_.Call({verb, {std::move(strings), number}}, options_.timeout);
  }
  // For requests without a reply: the check that follows is answered after they are done.
  absl::StatusOr<StoreResult> Tell(Verb verb, const std::string& key, const std::string& value) {
    if (!CodeOf(verb, connection_.dialect())) return NoVerb(verb);
    connection_.Tell({verb, {{KeyOf(key), value}}});
    DP_RETURN_IF_ERROR(Call(Verb::kCheck, {KeyOf(key)}).status());
    return StoreResult{};
  }
  // Asks for the value only if it exists: PyTorch's servers may close the connection otherwise. A
  // check also passes for a queue of that name, and the value then looks empty. Only compare_set,
  // which sets nothing here, shows the difference.
  absl::StatusOr<StoreResult> Find(const std::string& name) {
    DP_ASSIGN_OR_RETURN(const Fields check, Call(Verb::kCheck, {KeyOf(name)}));
    if (check.number != kReady) return StoreResult{};
    DP_ASSIGN_OR_RETURN(Fields get, Call(Verb::kGet, {KeyOf(name)}));
    if (!get.strings[0].empty()) return StoreResult{.found = true, .value = get.strings[0]};
    const std::string probe = "is it there?";
    DP_ASSIGN_OR_RETURN(const Fields now, Call(Verb::kCompareSet, {KeyOf(name), probe, probe}));
    return StoreResult{.found = now.strings[0].empty()};
  }

  absl::StatusOr<StoreResult> Run(const StoreSet& set) {
    return Tell(Verb::kSet, set.key, set.value);
  }
  absl::StatusOr<StoreResult> Run(const StoreAppend& append) {
    return Tell(Verb::kAppend, append.key, append.value);
  }
  absl::StatusOr<StoreResult> Run(const StoreAdd& add) {
    DP_ASSIGN_OR_RETURN(const Fields sum, Call(Verb::kAdd, {KeyOf(add.key)}, add.amount));
    return StoreResult{.number = sum.number};
  }
  absl::StatusOr<StoreResult> Run(const StoreCompareSet& compare_set) {
    DP_ASSIGN_OR_RETURN(Fields now,
                        Call(Verb::kCompareSet,
                             {KeyOf(compare_set.key), compare_set.expected, compare_set.desired}));
    // The reply does not say who has set the value.
    const bool found = now.strings[0] == compare_set.desired;
    return StoreResult{.found = found, .value = std::move(now.strings[0])};
  }
  absl::StatusOr<StoreResult> Run(const StoreDelete& erase) {
    DP_ASSIGN_OR_RETURN(const Fields deleted, Call(Verb::kDeleteKey, {KeyOf(erase.key)}));
    return StoreResult{.found = deleted.number > 0};
  }
  absl::StatusOr<StoreResult> Run(const StoreQueuePush& push) {
    DP_RETURN_IF_ERROR(Tell(Verb::kQueuePush, push.key, push.value).status());
    return Run(StoreQueueLength{push.key});
  }
  absl::StatusOr<StoreResult> Run(const StoreQueuePop& pop) {
    DP_ASSIGN_OR_RETURN(Fields head, Call(Verb::kQueuePop, {KeyOf(pop.key)}));
    StoreResult result{.found = head.number > 0, .number = head.number};
    if (result.found) result.value = std::move(head.strings[0]);
    return result;
  }
  absl::StatusOr<StoreResult> Run(const StoreGet& get) { return Find(get.key); }
  absl::StatusOr<StoreResult> Run(const StoreCheck& check) {
    if (check.keys.empty()) return StoreResult{.found = true};
    std::vector<std::string> keys;
    for (const std::string& name : check.keys) keys.push_back(KeyOf(name));
    DP_ASSIGN_OR_RETURN(const Fields ready, Call(Verb::kCheck, std::move(keys)));
    return StoreResult{.found = ready.number == kReady};
  }
  absl::StatusOr<StoreResult> Run(const StoreList& list) {
    if (!list.keys && list.prefix.empty()) {
      DP_ASSIGN_OR_RETURN(const Fields count, Call(Verb::kNumKeys, {}));
      return StoreResult{.found = count.number > 0, .number = count.number};
    }
    DP_ASSIGN_OR_RETURN(Fields all, Call(Verb::kListKeys, {}));
    StoreResult result;
    for (const std::string& key : all.strings)
      if (absl::StartsWith(key, KeyOf(list.prefix)))
        result.keys.push_back(key.substr(options_.prefix.size()));
    std::sort(result.keys.begin(), result.keys.end());
    result.number = static_cast<int64_t>(result.keys.size());
    result.found = result.number > 0;
    if (!list.keys) result.keys.clear();
    return result;
  }
  absl::StatusOr<StoreResult> Run(const StoreQueueLength& length) {
    DP_ASSIGN_OR_RETURN(const Fields elements, Call(Verb::kQueueLen, {KeyOf(length.key)}));
    return StoreResult{.found = elements.number > 0, .number = elements.number};
  }
  absl::StatusOr<StoreResult> Run(const StoreReached& reached) {
    DP_ASSIGN_OR_RETURN(StoreResult result, Find(reached.key));
    int64_t number = 0;
    const bool counts = !result.found || StartsWithNumber(result.value, &number);
    return StoreResult{.found = !counts || number >= reached.count, .number = number};
  }
  absl::StatusOr<StoreResult> Run(const StoreNewer&) { return NoVersions(); }

  TcpConnection& connection_;
  const TcpStoreOptions& options_;
};

absl::StatusOr<std::unique_ptr<TcpStore>> TcpStore::Open(const TcpStoreOptions& options) {
  std::unique_ptr<TcpStore> store(new TcpStore(options));
  DP_ASSIGN_OR_RETURN(
      Connection first,
      TcpConnection::Open(options.server, options.open_timeout.value_or(options.timeout)));
  store->Return(std::move(first));
  return store;
}

absl::StatusOr<TcpStore::Connection> TcpStore::Take() {
  {
    MutexLock lock(mu_);
    if (!idle_.empty()) {
      Connection connection = std::move(idle_.back());
      idle_.pop_back();
      return connection;
    }
  }
  return TcpConnection::Open(options_.server, options_.timeout);
}

void TcpStore::Return(Connection connection) {
  if (!connection->usable()) return;
  MutexLock lock(mu_);
  idle_.push_back(std::move(connection));
}

absl::StatusOr<std::vector<StoreResult>> TcpStore::Execute(
    absl::Span<const StoreOperation> operations) {
  std::vector<StoreResult> results;
  for (const StoreOperation& operation : operations) {
    absl::StatusOr<StoreResult> result = RunOne(operation);
    const auto* add = std::get_if<StoreAdd>(&operation);
    if (add != nullptr && absl::IsUnavailable(result.status()))
      return WhyNoSum(*add, result.status());
    if (!result.ok()) return result.status();
    results.push_back(*std::move(result));
  }
  return results;
}

absl::StatusOr<StoreResult> TcpStore::RunOne(const StoreOperation& operation) {
  DP_ASSIGN_OR_RETURN(Connection connection, Take());
  auto result = Calls(*connection, options_).Run(operation);
  Return(std::move(connection));
  return result;
}

absl::Status TcpStore::WhyNoSum(const StoreAdd& add, const absl::Status& closed) {
  const absl::StatusOr<StoreResult> now = RunOne(StoreGet{add.key});
  int64_t number = 0;
  if (!now.ok() || !now->found || StartsWithNumber(now->value, &number)) return closed;
  return absl::InvalidArgumentError(absl::StrCat("store add to key ", PrintableKey(add.key),
                                                 ": its value does not begin with a number"));
}

absl::StatusOr<std::vector<StoreResult>> TcpStore::Await(absl::Span<const StoreOperation> reads,
                                                         absl::Duration timeout) {
  const Deadline deadline(timeout);
  DP_ASSIGN_OR_RETURN(const std::vector<std::string> names, AwaitedKeys(reads));
  for (const StoreOperation& read : reads) {
    DP_RETURN_IF_ERROR(CheckKnown(read, options_.server.dialect));
  }
  for (;;) {
    DP_ASSIGN_OR_RETURN(Connection connection, Take());
    Calls calls(*connection, options_);
    const absl::Status present = calls.Wait(names, deadline.left());
    if (!present.ok() && !absl::IsDeadlineExceeded(present)) return present;
    if (!connection->usable()) {
      DP_ASSIGN_OR_RETURN(connection, Take());
    }
    auto results = Calls(*connection, options_).RunAll(reads);
    const bool found = results.ok() && std::all_of(results->begin(), results->end(),
                                                   [](const auto& one) { return one.found; });
    if (results.ok() && !found && deadline.passed())
      results = Missing(*connection, reads, timeout);
    else if (results.ok() && !found)
      connection->AwaitClose(std::min(kPoll, deadline.left()));
    Return(std::move(connection));
    if (found || !results.ok()) return results;
  }
}

absl::Status TcpStore::Missing(TcpConnection& connection, absl::Span<const StoreOperation> reads,
                               absl::Duration waited) const {
  Calls calls(connection, options_);
  std::vector<Unmet> unmet;
  for (const StoreOperation& read : OneKeyEach(reads)) {
    DP_ASSIGN_OR_RETURN(const StoreResult now, calls.Run(read));
    if (!now.found) unmet.push_back(UnmetOf(read, now));
  }
  return StillMissing(unmet, waited);
}

}  // namespace dp::wire
