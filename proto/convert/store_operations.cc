#include "proto/convert/store_operations.h"

#include <iterator>
#include <string>
#include <utility>
#include <variant>

#include "base/overloaded.h"
#include "base/status.h"

namespace dp {
namespace {

std::string KeyOf(auto* proto) { return std::move(*proto->mutable_key()); }
std::string ValueOf(auto* proto) { return std::move(*proto->mutable_value()); }

StoreCompareSet ToCompareSet(v1::CompareSetOperation* proto) {
  return {KeyOf(proto), std::move(*proto->mutable_expected()),
          std::move(*proto->mutable_desired())};
}

StoreCheck ToCheck(v1::CheckOperation* proto) {
  return {{std::make_move_iterator(proto->mutable_keys()->begin()),
           std::make_move_iterator(proto->mutable_keys()->end())}};
}

// Moves the strings out of `proto`.
absl::StatusOr<StoreOperation> FromProto(v1::StoreOperation& proto) {
  switch (proto.verb_case()) {
    case v1::StoreOperation::kSet:
      return StoreSet{KeyOf(proto.mutable_set()), ValueOf(proto.mutable_set())};
    case v1::StoreOperation::kGet:
      return StoreGet{KeyOf(proto.mutable_get())};
    case v1::StoreOperation::kAdd:
      return StoreAdd{KeyOf(proto.mutable_add()), proto.add().amount()};
    case v1::StoreOperation::kCompareSet:
      return ToCompareSet(proto.mutable_compare_set());
    case v1::StoreOperation::kDelete:
      return StoreDelete{KeyOf(proto.mutable_delete_())};
    case v1::StoreOperation::kCheck:
      return ToCheck(proto.mutable_check());
    case v1::StoreOperation::kAppend:
      return StoreAppend{KeyOf(proto.mutable_append()), ValueOf(proto.mutable_append())};
    case v1::StoreOperation::kList:
      return StoreList{std::move(*proto.mutable_list()->mutable_prefix()),
                       !proto.list().count_only()};
    case v1::StoreOperation::kQueuePush:
      return StoreQueuePush{KeyOf(proto.mutable_queue_push()), ValueOf(proto.mutable_queue_push())};
    case v1::StoreOperation::kQueuePop:
      return StoreQueuePop{KeyOf(proto.mutable_queue_pop())};
    case v1::StoreOperation::kQueueLength:
      return StoreQueueLength{KeyOf(proto.mutable_queue_length())};
    case v1::StoreOperation::kReached:
      return StoreReached{KeyOf(proto.mutable_reached()), proto.reached().count()};
    case v1::StoreOperation::kNewer:
      return StoreNewer{KeyOf(proto.mutable_newer()), proto.newer().since()};
    case v1::StoreOperation::VERB_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a store operation has no verb that this release knows");
}

template <typename Verb>
void FillPair(const Verb& verb, auto* proto) {
  proto->set_key(verb.key);
  proto->set_value(verb.value);
}

void Fill(const StoreOperation& operation, v1::StoreOperation& proto) {
  std::visit(Overloaded{
                 [&](const StoreSet& set) { FillPair(set, proto.mutable_set()); },
                 [&](const StoreAppend& append) { FillPair(append, proto.mutable_append()); },
                 [&](const StoreQueuePush& push) { FillPair(push, proto.mutable_queue_push()); },
                 [&](const StoreAdd& add) {
                   proto.mutable_add()->set_key(add.key);
                   proto.mutable_add()->set_amount(add.amount);
                 },
                 [&](const StoreCompareSet& compare_set) {
                   proto.mutable_compare_set()->set_key(compare_set.key);
                   proto.mutable_compare_set()->set_expected(compare_set.expected);
                   proto.mutable_compare_set()->set_desired(compare_set.desired);
                 },
                 [&](const StoreDelete& erase) { proto.mutable_delete_()->set_key(erase.key); },
                 [&](const StoreQueuePop& pop) { proto.mutable_queue_pop()->set_key(pop.key); },
                 [&](const StoreGet& get) { proto.mutable_get()->set_key(get.key); },
                 [&](const StoreCheck& check) {
                   proto.mutable_check()->mutable_keys()->Assign(check.keys.begin(),
                                                                 check.keys.end());
                 },
                 [&](const StoreList& list) {
                   proto.mutable_list()->set_prefix(list.prefix);
                   proto.mutable_list()->set_count_only(!list.keys);
                 },
                 [&](const StoreQueueLength& length) {
                   proto.mutable_queue_length()->set_key(length.key);
                 },
                 [&](const StoreReached& reached) {
                   proto.mutable_reached()->set_key(reached.key);
                   proto.mutable_reached()->set_count(reached.count);
                 },
                 [&](const StoreNewer& newer) {
                   proto.mutable_newer()->set_key(newer.key);
                   proto.mutable_newer()->set_since(newer.since);
                 },
             },
             operation);
}

}  // namespace

absl::StatusOr<std::vector<StoreOperation>> OperationsFromProto(StoreOperationProtos&& protos) {
  std::vector<StoreOperation> operations;
  operations.reserve(protos.size());
  for (v1::StoreOperation& proto : protos) {
    DP_ASSIGN_OR_RETURN(StoreOperation operation, FromProto(proto));
    operations.push_back(std::move(operation));
  }
  return operations;
}

absl::StatusOr<std::vector<StoreOperation>> OperationsFromProto(
    const StoreOperationProtos& protos) {
  return OperationsFromProto(StoreOperationProtos(protos));
}

void OperationsToProto(absl::Span<const StoreOperation> operations, StoreOperationProtos* protos) {
  protos->Clear();
  for (const StoreOperation& operation : operations) Fill(operation, *protos->Add());
}

void ResultsToProto(const std::vector<StoreResult>& results, StoreResultProtos* protos) {
  protos->Clear();
  for (const StoreResult& result : results) {
    v1::StoreResult& proto = *protos->Add();
    proto.set_found(result.found);
    if (!result.value.empty()) proto.set_value(result.value);  // an empty field costs memory too
    proto.set_number(result.number);
    if (!result.keys.empty()) proto.mutable_keys()->Assign(result.keys.begin(), result.keys.end());
    proto.set_version(result.version);
  }
}

std::vector<StoreResult> ResultsFromProto(StoreResultProtos&& protos) {
  std::vector<StoreResult> results;
  results.reserve(protos.size());
  for (v1::StoreResult& proto : protos) {
    results.push_back({.found = proto.found(),
                       .value = std::move(*proto.mutable_value()),
                       .number = proto.number(),
                       .keys = {proto.keys().begin(), proto.keys().end()},
                       .version = proto.version()});
  }
  return results;
}

}  // namespace dp
