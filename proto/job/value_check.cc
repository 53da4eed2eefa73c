#include "proto/job/value_check.h"

#include <cmath>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/utf8.h"

namespace dp {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The longest part of a text in an error.
constexpr size_t kTextShownBytesMax = 80;

std::optional<UnusableValue> FindIn(const Message& message, const std::string& prefix);

std::optional<UnusableValue> FindInText(const std::string& path, const std::string& text) {
  if (IsUtf8(text)) return std::nullopt;
  return UnusableValue{path,
                       absl::StrCat("is \"", absl::CEscape(text.substr(0, kTextShownBytesMax)),
                                    "\"; expected UTF-8: other bytes cannot be sent")};
}

std::optional<UnusableValue> FindInNumber(const std::string& path, double number) {
  if (std::isfinite(number)) return std::nullopt;
  return UnusableValue{path, absl::StrCat("is ", number, "; expected a finite number")};
}

// Entries of a map are messages with a key and a value; errors name them by the key.
std::optional<UnusableValue> FindInEntry(const Message& entry, const std::string& path) {
  const auto& reflection = *entry.GetReflection();
  const auto& type = *entry.GetDescriptor();
  const FieldDescriptor& key = *type.map_key();
  const FieldDescriptor& value = *type.map_value();
  if (key.cpp_type() != FieldDescriptor::CPPTYPE_STRING) return std::nullopt;
  const std::string name = reflection.GetString(entry, &key);
  if (auto found = FindInText(path, name)) return found;
  if (value.type() != FieldDescriptor::TYPE_STRING) return std::nullopt;
  return FindInText(absl::StrCat(path, ".", name), reflection.GetString(entry, &value));
}

std::optional<UnusableValue> FindInElement(const Message& message, const FieldDescriptor& field,
                                           int index, const std::string& path) {
  const auto& reflection = *message.GetReflection();
  if (field.is_map()) {
    return FindInEntry(reflection.GetRepeatedMessage(message, &field, index), path);
  }
  const std::string place = absl::StrCat(path, "[", index, "]");
  if (field.type() == FieldDescriptor::TYPE_STRING) {
    return FindInText(place, reflection.GetRepeatedString(message, &field, index));
  }
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return std::nullopt;
  return FindIn(reflection.GetRepeatedMessage(message, &field, index), place + ".");
}

std::optional<UnusableValue> FindInField(const Message& message, const FieldDescriptor& field,
                                         const std::string& path) {
  const auto& reflection = *message.GetReflection();
  if (field.is_repeated()) {
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      if (auto found = FindInElement(message, field, i, path)) return found;
    }
    return std::nullopt;
  }
  if (field.type() == FieldDescriptor::TYPE_STRING) {
    return FindInText(path, reflection.GetString(message, &field));
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    return FindInNumber(path, reflection.GetDouble(message, &field));
  }
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return std::nullopt;
  return FindIn(reflection.GetMessage(message, &field), path + ".");
}

std::optional<UnusableValue> FindIn(const Message& message, const std::string& prefix) {
  std::vector<const FieldDescriptor*> set;
  message.GetReflection()->ListFields(message, &set);
  for (const FieldDescriptor* field : set) {
    if (auto found = FindInField(message, *field, prefix + field->json_name())) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<UnusableValue> FindUnusable(const Message& message) { return FindIn(message, ""); }

}  // namespace dp
