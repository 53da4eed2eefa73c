#include "server/journal/message_fields.h"

#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dp::server {
absl::Status UnknownValue(const FieldDescriptor& field, int value) {
  return absl::DataLossError(absl::StrCat(field.containing_type()->name(), ".", field.name(),
                                          " is ", value,
                                          ", which this release does not know; start a later one"));
}

namespace fields {

Place::Place(const Message& message, const FieldDescriptor* of)
    : field(of), reflection(message.GetReflection()) {
  message_type = of->message_type();
  repeated = of->is_repeated();
  has_presence = of->has_presence();
  const auto* const type = of->enum_type();
  if (type == nullptr) return;
  first_value = absl::EndsWith(type->value(0)->name(), "_UNSPECIFIED") ? 1 : 0;
  last_value = type->value_count() - 1;
  DP_CHECK(type->value(last_value)->number() == last_value);
}

Place PlaceOf(const Message& message, int number) {
  return {message, message.GetDescriptor()->FindFieldByNumber(number)};
}

Place PlaceOf(const Message& message, std::string_view name) {
  const FieldDescriptor* const field =
      message.GetDescriptor()->FindFieldByName({name.data(), name.size()});
  if (field == nullptr) {
    const std::string type(message.GetTypeName());
    std::fprintf(stderr, "%s needs a field \"%.*s\"\n", type.c_str(), static_cast<int>(name.size()),
                 name.data());
  }
  DP_CHECK(field != nullptr);
  return {message, field};
}

}  // namespace fields
}  // namespace dp::server
