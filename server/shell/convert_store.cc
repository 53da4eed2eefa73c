#include "server/shell/convert_store.h"

#include "base/overloaded.h"

namespace dp::server {

absl::StatusOr<StoreOperation> FromProto(const v1::StoreOperation& operation) {
  using Proto = v1::StoreOperation;
  switch (operation.verb_case()) {
    case Proto::kSet:
      return StoreSet{operation.set().key(), operation.set().value()};
    case Proto::kGet:
      return StoreGet{operation.get().key()};
    case Proto::kAdd:
      return StoreAdd{operation.add().key(), operation.add().amount()};
    case Proto::kCompareSet:
      return StoreCompareSet{operation.compare_set().key(), operation.compare_set().expected(),
                             operation.compare_set().desired()};
    case Proto::kDelete:
      return StoreDelete{operation.delete_().key()};
    case Proto::kCheck:
      return StoreCheck{{operation.check().keys().begin(), operation.check().keys().end()}};
    case Proto::VERB_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a store operation has no verb that this coordinator knows");
}

v1::StoreOperation ToProto(const StoreOperation& operation) {
  v1::StoreOperation proto;
  std::visit(
      Overloaded{[&](const StoreSet& set) {
                   proto.mutable_set()->set_key(set.key);
                   proto.mutable_set()->set_value(set.value);
                 },
                 [&](const StoreGet& get) { proto.mutable_get()->set_key(get.key); },
                 [&](const StoreAdd& add) {
                   proto.mutable_add()->set_key(add.key);
                   proto.mutable_add()->set_amount(add.amount);
                 },
                 [&](const StoreCompareSet& compare_set) {
                   proto.mutable_compare_set()->set_key(compare_set.key);
                   proto.mutable_compare_set()->set_expected(compare_set.expected);
                   proto.mutable_compare_set()->set_desired(compare_set.desired);
                 },
                 [&](const StoreDelete& remove) { proto.mutable_delete_()->set_key(remove.key); },
                 [&](const StoreCheck& check) {
                   for (const std::string& key : check.keys) {
                     proto.mutable_check()->add_keys(key);
                   }
                 }},
      operation);
  return proto;
}

v1::StoreResult ToProto(const StoreResult& result) {
  v1::StoreResult proto;
  proto.set_found(result.found);
  proto.set_value(result.value);
  proto.set_number(result.number);
  return proto;
}

}  // namespace dp::server
