#include "store/batch_codec.h"

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/field_list.h"
#include "base/status.h"

namespace dp {
namespace {

void PutNumber(uint64_t number, std::string* out) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  out->append(bytes, sizeof bytes);
}

void Put(const std::string& bytes, std::string* out) {
  PutNumber(bytes.size(), out);
  out->append(bytes);
}
void Put(int64_t number, std::string* out) { PutNumber(static_cast<uint64_t>(number), out); }

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
  void Take(std::string* bytes) { *bytes = Take(TakeNumber()); }
  void Take(int64_t* number) { *number = static_cast<int64_t>(TakeNumber()); }

 private:
  absl::string_view left_;
  bool cut_ = false;
};

// IsRead and this file agree on the changes.
template <size_t... kPlaces>
constexpr bool ChangesHaveFields(std::index_sequence<kPlaces...>) {
  size_t first_read = 0;
  bool found = false;
  ((found |= std::is_same_v<std::variant_alternative_t<kPlaces, StoreOperation>, StoreGet>,
    first_read += found ? 0 : 1),
   ...);
  return (
      (HasFields<std::variant_alternative_t<kPlaces, StoreOperation>> == (kPlaces < first_read)) &&
      ...);
}
static_assert(ChangesHaveFields(std::make_index_sequence<std::variant_size_v<StoreOperation>>()));

// Takes the fields of the change that has the place `kind` in StoreOperation.
template <size_t kPlace = 0>
absl::StatusOr<StoreOperation> TakeChange(size_t kind, FieldReader& in) {
  using Change = std::variant_alternative_t<kPlace, StoreOperation>;
  if constexpr (!HasFields<Change>) {
    return absl::DataLossError("a batch of store operations has an unknown verb");
  } else {
    if (kind != kPlace) return TakeChange<kPlace + 1>(kind, in);
    Change change;
    ForEachField<Change>([&](auto field) { in.Take(&(change.*field.kMember)); });
    return change;
  }
}

}  // namespace

std::string EncodeChanges(absl::Span<const StoreOperation> operations) {
  std::string out;
  for (const StoreOperation& operation : operations) {
    if (IsRead(operation)) continue;
    out.push_back(static_cast<char>(operation.index()));
    const auto put = [&out]<typename Change>(const Change& change) {
      if constexpr (HasFields<Change>) {
        ForEachField<Change>([&](auto field) { Put(change.*field.kMember, &out); });
      }
    };
    std::visit(put, operation);
  }
  return out;
}

absl::StatusOr<std::vector<StoreOperation>> DecodeChanges(absl::string_view bytes) {
  std::vector<StoreOperation> operations;
  FieldReader in(bytes);
  while (!in.at_end()) {
    DP_ASSIGN_OR_RETURN(StoreOperation operation,
                        TakeChange(static_cast<uint8_t>(in.Take(1)[0]), in));
    if (in.cut()) return absl::DataLossError("a batch of store operations is cut short");
    operations.push_back(std::move(operation));
  }
  return operations;
}

}  // namespace dp
