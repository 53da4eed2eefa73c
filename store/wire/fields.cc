#include "store/wire/fields.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace dp::wire {
namespace {

void AppendLittleEndian(uint64_t number, size_t bytes, std::string* out) {
  char digits[8];
  for (size_t i = 0; i < bytes; ++i) digits[i] = static_cast<char>(number >> (8 * i));
  out->append(digits, bytes);
}

size_t WidthOf(char field) { return field == 'b' ? 1 : field == 'u' ? 4 : 8; }

bool IsString(char field) { return field == 'k' || field == 'v'; }

}  // namespace

Limits Limits::For(const KeyValueLimits& store) {
  Limits limits;
  limits.key_bytes = std::max(limits.key_bytes, store.key_bytes);
  limits.value_bytes = std::max(limits.value_bytes, store.value_bytes);
  return limits;
}

void AppendNumber(int64_t number, std::string* out) {
  AppendLittleEndian(static_cast<uint64_t>(number), 8, out);
}

void AppendString(absl::string_view bytes, std::string* out) {
  AppendLittleEndian(bytes.size(), 8, out);
  out->append(bytes.data(), bytes.size());
}

void AppendFields(Shape shape, const Fields& fields, std::string* out) {
  size_t next = 0;
  for (Shape field = shape; *field != '\0'; ++field) {
    if (IsString(*field)) {
      DP_CHECK(next < fields.strings.size());
      AppendString(fields.strings[next++], out);
    } else if (*field == '*' || *field == '+') {
      const size_t per_item = std::strlen(field + 1);
      DP_CHECK(fields.strings.size() % per_item == 0);
      if (*field == '*') AppendLittleEndian(fields.strings.size() / per_item, 8, out);
      for (const std::string& item : fields.strings) AppendString(item, out);
      return;
    } else if (*field == '?') {
      if (fields.number <= 0) return;
    } else {
      AppendLittleEndian(static_cast<uint64_t>(fields.number), WidthOf(*field), out);
    }
  }
  DP_CHECK(next == fields.strings.size());
}

void FieldParser::Begin(Shape shape, uint64_t count) {
  DP_CHECK(*next_ == '\0' && digits_taken_ == 0);
  fields_ = Fields{};
  message_bytes_ = 0;
  items_left_ = 0;
  next_ = shape;
  if (*shape == '+') {
    items_left_ = count;
    item_ = shape + 1;
    next_ = count > 0 ? item_ : "";
  }
}

bool FieldParser::announces_all() const {
  if (!in_string_ || items_left_ > 1) return false;
  return std::none_of(next_ + 1, next_ + std::strlen(next_),
                      [](char field) { return IsString(field) || field == '*' || field == '+'; });
}

absl::StatusOr<bool> FieldParser::Take(absl::string_view* input) {
  uint64_t number = 0;
  while (*next_ != '\0') {
    if (in_string_) {
      if (starved() || !TakeBytes(input)) return false;
      in_string_ = false;
      Advance();
    } else if (*next_ == '?') {
      if (fields_.number > 0)
        ++next_;
      else
        next_ = "";
    } else if (!TakeNumber(WidthOf(*next_), input, &number)) {
      return false;
    } else if (*next_ == '*') {
      DP_RETURN_IF_ERROR(BeginItems(number));
    } else if (IsString(*next_)) {
      DP_RETURN_IF_ERROR(BeginString(number));
    } else {
      fields_.number = static_cast<int64_t>(number);
      Advance();
    }
  }
  return true;
}

Fields FieldParser::Finish() {
  DP_CHECK(*next_ == '\0');
  message_bytes_ = 0;
  return std::exchange(fields_, Fields{});
}

bool FieldParser::TakeNumber(size_t bytes, absl::string_view* input, uint64_t* number) {
  const size_t taken = std::min(bytes - digits_taken_, input->size());
  std::copy_n(input->data(), taken, digits_ + digits_taken_);
  digits_taken_ += taken;
  input->remove_prefix(taken);
  if (digits_taken_ < bytes) return false;
  *number = 0;
  for (size_t i = 0; i < bytes; ++i) *number |= uint64_t{digits_[i]} << (8 * i);
  digits_taken_ = 0;
  return true;
}

bool FieldParser::TakeBytes(absl::string_view* input) {
  const size_t taken = std::min<uint64_t>(string_bytes_left_, input->size());
  // Reserve all at once: growing would take up to three times the memory.
  if (fields_.strings.back().empty()) fields_.strings.back().reserve(string_bytes_left_);
  fields_.strings.back().append(input->data(), taken);
  string_bytes_left_ -= taken;
  input->remove_prefix(taken);
  return string_bytes_left_ == 0;
}

absl::Status FieldParser::BeginItems(uint64_t count) {
  if (count > limits_.keys)
    return absl::ResourceExhaustedError(
        absl::StrCat("message announces ", count, " keys, the limit is ", limits_.keys));
  items_left_ = count;
  item_ = next_ + 1;
  next_ = count > 0 ? item_ : "";
  return absl::OkStatus();
}

absl::Status FieldParser::BeginString(uint64_t bytes) {
  const bool key = *next_ == 'k';
  const size_t limit = key ? limits_.key_bytes : limits_.value_bytes;
  if (bytes > limit)
    return absl::ResourceExhaustedError(absl::StrCat("message announces a ", key ? "key" : "value",
                                                     " of ", bytes, " bytes, the limit is ",
                                                     limit));
  message_bytes_ += sizeof(std::string) + bytes;
  if (message_bytes_ > limits_.message_bytes)
    return absl::ResourceExhaustedError(absl::StrCat(
        "message takes ", message_bytes_, " bytes, the limit is ", limits_.message_bytes));
  fields_.strings.emplace_back();
  string_bytes_left_ = bytes;
  in_string_ = true;
  return absl::OkStatus();
}

void FieldParser::Advance() {
  ++next_;
  if (*next_ == '\0' && items_left_ > 1) {
    --items_left_;
    next_ = item_;
  }
}

}  // namespace dp::wire
