#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <type_traits>

#include "absl/strings/string_view.h"

namespace dp::ctl {

// Writes JSON in the order of the calls, indented by two blanks, or on one line. Replaces bytes
// that are not UTF-8 by U+FFFD. The caller must alternate keys and values. Not thread-safe.
//
//   JsonWriter json(out);
//   json.BeginObject();
//   json.Field("id", 7);
//   json.EndObject();
class JsonWriter {
 public:
  enum class Style { kIndented, kOneLine };
  explicit JsonWriter(std::ostream& out, Style style = Style::kIndented)
      : out_(out), style_(style) {}

  void BeginObject() { Begin('{'); }
  void EndObject() { End('}'); }
  void BeginArray() { Begin('['); }
  void EndArray() { End(']'); }
  void Key(absl::string_view key);

  void String(absl::string_view value);
  void Int(int64_t value);
  void UInt(uint64_t value);
  // Null for a number that is not finite, which JSON does not have.
  void Double(double value);
  // The same with as many digits as tell the number from every other.
  void Exact(double value);
  void Bool(bool value);
  void Null();

  void Field(absl::string_view key, absl::string_view value) { Key(key), String(value); }
  void Field(absl::string_view key, const std::string& value) { Key(key), String(value); }
  void Field(absl::string_view key, const char* value) { Key(key), String(value); }
  // Null for an empty text.
  void TextOrNull(absl::string_view key, const std::string& text) {
    Key(key);
    text.empty() ? Null() : String(text);
  }
  void Field(absl::string_view key, int64_t value) { Key(key), Int(value); }
  void Field(absl::string_view key, int32_t value) { Key(key), Int(value); }
  void Field(absl::string_view key, uint64_t value) { Key(key), UInt(value); }
  // A template, so that no other type converts to bool.
  template <typename T, typename = std::enable_if_t<std::is_same_v<T, bool>>>
  void Field(absl::string_view key, T value) {
    Key(key), Bool(value);
  }
  void NullField(absl::string_view key) { Key(key), Null(); }

 private:
  void Begin(char bracket);
  void End(char bracket);
  // Writes the comma, the line break and the indent that precede a key or an element.
  void BeforeValue();
  void NewLine();

  std::ostream& out_;
  const Style style_;
  int depth_ = 0;
  bool first_ = true;       // in the innermost object or array
  bool after_key_ = false;  // a value follows on the same line
};

}  // namespace dp::ctl
