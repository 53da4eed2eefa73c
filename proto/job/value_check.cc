#include "proto/job/value_check.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "google/protobuf/duration.pb.h"

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
  // A list of one number may be written as the number.
  const bool alone = reflection.FieldSize(message, &field) == 1;
  const std::string place = absl::StrCat(path, "[", index, "]");
  if (field.type() == FieldDescriptor::TYPE_STRING) {
    return FindInText(place, reflection.GetRepeatedString(message, &field, index));
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    return FindInNumber(alone ? path : place, reflection.GetRepeatedDouble(message, &field, index));
  }
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return std::nullopt;
  return FindIn(reflection.GetRepeatedMessage(message, &field, index), place + ".");
}

// google.protobuf.Duration's own rule. Sums of other values depend on who adds them.
std::optional<UnusableValue> FindInDuration(const std::string& path,
                                            const google::protobuf::Duration& duration) {
  constexpr int64_t kSecondsMax = 315'576'000'000;  // about 10,000 years
  constexpr int32_t kNanosMax = 999'999'999;
  const int64_t seconds = duration.seconds();
  const int32_t nanos = duration.nanos();
  const bool in_range = seconds >= -kSecondsMax && seconds <= kSecondsMax && nanos >= -kNanosMax &&
                        nanos <= kNanosMax;
  const bool signs_differ = (seconds > 0 && nanos < 0) || (seconds < 0 && nanos > 0);
  if (in_range && !signs_differ) return std::nullopt;
  return UnusableValue{
      path, absl::StrCat("has ", seconds, " seconds and ", nanos,
                         " nanos; expected a valid google.protobuf.Duration: at most ", kSecondsMax,
                         " seconds and ", kNanosMax, " nanos, both of one sign")};
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
  const Message& child = reflection.GetMessage(message, &field);
  if (child.GetDescriptor() == google::protobuf::Duration::descriptor())
    return FindInDuration(path, static_cast<const google::protobuf::Duration&>(child));
  return FindIn(child, path + ".");
}

std::optional<UnusableValue> FindIn(const Message& message, const std::string& prefix) {
  std::vector<const FieldDescriptor*> set;
  message.GetReflection()->ListFields(message, &set);
  for (const FieldDescriptor* field : set) {
    const std::string path = absl::StrCat(prefix, field->json_name());
    if (auto found = FindInField(message, *field, path)) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<UnusableValue> FindUnusable(const Message& message) { return FindIn(message, ""); }

}  // namespace dp
