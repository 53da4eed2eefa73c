#include "store/batch_codec.h"

#include <cstdint>
#include <cstring>
#include <utility>
#include <variant>

#include "base/overloaded.h"

namespace dp {
namespace {

enum class Verb : uint8_t { kSet, kAppend, kAdd, kCompareSet, kDelete, kPush, kPop };

void PutNumber(uint64_t number, std::string* out) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  out->append(bytes, sizeof bytes);
}

void PutBytes(absl::string_view bytes, std::string* out) {
  PutNumber(bytes.size(), out);
  out->append(bytes.data(), bytes.size());
}

void Put(Verb verb, std::initializer_list<absl::string_view> fields, std::string* out) {
  out->push_back(static_cast<char>(verb));
  for (const absl::string_view field : fields) PutBytes(field, out);
}

// Takes fields off the front. After a field that is cut short, all fields are empty.
class FieldReader {
 public:
  explicit FieldReader(absl::string_view bytes) : left_(bytes) {}

  bool at_end() const { return left_.empty(); }
  bool cut() const { return cut_; }

  std::string Take(size_t size) {
    cut_ = cut_ || size > left_.size();
    if (cut_) return "";
    std::string taken(left_.substr(0, size));
    left_.remove_prefix(size);
    return taken;
  }
  uint64_t TakeNumber() {
    uint64_t number = 0;
    const std::string bytes = Take(sizeof number);
    if (!cut_) std::memcpy(&number, bytes.data(), sizeof number);
    return number;
  }
  std::string TakeBytes() { return Take(TakeNumber()); }

 private:
  absl::string_view left_;
  bool cut_ = false;
};

absl::StatusOr<StoreOperation> TakeOperation(FieldReader& in) {
  const std::string verb = in.Take(1);
  std::string key = in.TakeBytes();
  if (in.cut()) return absl::DataLossError("a batch of store operations is cut short");
  switch (static_cast<Verb>(verb[0])) {
    case Verb::kSet:
      return StoreSet{std::move(key), in.TakeBytes()};
    case Verb::kAppend:
      return StoreAppend{std::move(key), in.TakeBytes()};
    case Verb::kAdd:
      return StoreAdd{std::move(key), static_cast<int64_t>(in.TakeNumber())};
    case Verb::kCompareSet: {
      std::string expected = in.TakeBytes();
      return StoreCompareSet{std::move(key), std::move(expected), in.TakeBytes()};
    }
    case Verb::kDelete:
      return StoreDelete{std::move(key)};
    case Verb::kPush:
      return StoreQueuePush{std::move(key), in.TakeBytes()};
    case Verb::kPop:
      return StoreQueuePop{std::move(key)};
  }
  return absl::DataLossError("a batch of store operations has an unknown verb");
}

}  // namespace

std::string EncodeChanges(absl::Span<const StoreOperation> operations) {
  std::string out;
  for (const StoreOperation& operation : operations) {
    std::visit(Overloaded{
                   [&](const StoreSet& set) {
                     Put(Verb::kSet, {set.key, set.value}, &out);
                   },
                   [&](const StoreAppend& append) {
                     Put(Verb::kAppend, {append.key, append.value}, &out);
                   },
                   [&](const StoreAdd& add) {
                     Put(Verb::kAdd, {add.key}, &out);
                     PutNumber(static_cast<uint64_t>(add.amount), &out);
                   },
                   [&](const StoreCompareSet& compare_set) {
                     Put(Verb::kCompareSet,
                         {compare_set.key, compare_set.expected, compare_set.desired}, &out);
                   },
                   [&](const StoreDelete& erase) { Put(Verb::kDelete, {erase.key}, &out); },
                   [&](const StoreQueuePush& push) {
                     Put(Verb::kPush, {push.key, push.value}, &out);
                   },
                   [&](const StoreQueuePop& pop) { Put(Verb::kPop, {pop.key}, &out); },
                   [](const auto&) {},
               },
               operation);
  }
  return out;
}

absl::StatusOr<std::vector<StoreOperation>> DecodeChanges(absl::string_view bytes) {
  std::vector<StoreOperation> operations;
  FieldReader in(bytes);
  while (!in.at_end()) {
    absl::StatusOr<StoreOperation> operation = TakeOperation(in);
    if (!operation.ok()) return operation.status();
    if (in.cut()) return absl::DataLossError("a batch of store operations is cut short");
    operations.push_back(*std::move(operation));
  }
  return operations;
}

}  // namespace dp
