#include "proto/job/plugin_config.h"

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/utf8.h"

namespace dp {
namespace {

using google::protobuf::Value;
using model::PluginValue;
using Type = PluginValue::Type;

// The longest part of a key in an error.
constexpr size_t kKeyShownBytesMax = 80;

// Keys are parts of paths.
bool IsKey(const std::string& key) {
  return !key.empty() && absl::c_all_of(key, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  });
}

absl::Status ConfigError(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("config", path.empty() ? "" : ".", path, " ", what));
}

class Flattening {
 public:
  absl::Status AddAll(const google::protobuf::Struct& mapping, const std::string& path, int depth) {
    if (depth > kPluginConfigDepthMax) {
      return ConfigError(path,
                         absl::StrCat("is nested more than ", kPluginConfigDepthMax,
                                      " levels deep; make it flatter, or put it into a file"));
    }
    std::map<std::string, const Value*> sorted;
    for (const auto& [key, value] : mapping.fields()) sorted[key] = &value;
    for (const auto& [key, value] : sorted) {
      if (!IsKey(key)) {
        return ConfigError(
            path,
            absl::StrCat("has the key '", absl::Utf8SafeCEscape(key.substr(0, kKeyShownBytesMax)),
                         "'; a key is of letters, digits, '_' and '-'"));
      }
      DP_RETURN_IF_ERROR(Add(*value, path.empty() ? key : absl::StrCat(path, ".", key), depth));
    }
    return absl::OkStatus();
  }

  std::vector<PluginValue> Take() { return std::move(values_); }

 private:
  absl::Status Add(const Value& value, const std::string& path, int depth) {
    if (values_.size() >= kPluginConfigValuesMax) {
      return ConfigError("", absl::StrCat("has more than ", kPluginConfigValuesMax,
                                          " values; put them into a file, and give its path"));
    }
    switch (value.kind_case()) {
      case Value::kNullValue:
        values_.push_back({.path = path});
        return absl::OkStatus();
      case Value::kBoolValue:
        values_.push_back(
            {.path = path, .type = Type::kFlag, .number = value.bool_value() ? 1.0 : 0.0});
        return absl::OkStatus();
      case Value::kNumberValue:
        if (!std::isfinite(value.number_value())) {
          return ConfigError(path,
                             absl::StrCat("is ", value.number_value(), "; give a finite number"));
        }
        values_.push_back({.path = path, .type = Type::kNumber, .number = value.number_value()});
        return absl::OkStatus();
      case Value::kStringValue:
        return AddText(value.string_value(), path);
      case Value::kListValue:
        return AddList(value.list_value(), path, depth);
      case Value::kStructValue:
        values_.push_back({.path = path,
                           .type = Type::kMapping,
                           .number = static_cast<double>(value.struct_value().fields_size())});
        return AddAll(value.struct_value(), path, depth + 1);
      case Value::KIND_NOT_SET:
        break;
    }
    return ConfigError(path, "has no value; give one, or null");
  }

  absl::Status AddText(const std::string& text, const std::string& path) {
    if (!IsUtf8(text) || text.find('\0') != std::string::npos) {
      return ConfigError(path,
                         "is a text with a 0 or with bytes that are not UTF-8; give plain text");
    }
    values_.push_back({.path = path, .type = Type::kText, .text = text});
    return absl::OkStatus();
  }

  absl::Status AddList(const google::protobuf::ListValue& list, const std::string& path,
                       int depth) {
    if (depth >= kPluginConfigDepthMax) {
      return ConfigError(path,
                         absl::StrCat("is nested more than ", kPluginConfigDepthMax,
                                      " levels deep; make it flatter, or put it into a file"));
    }
    values_.push_back(
        {.path = path, .type = Type::kList, .number = static_cast<double>(list.values_size())});
    for (int i = 0; i < list.values_size(); ++i) {
      DP_RETURN_IF_ERROR(Add(list.values(i), absl::StrCat(path, "[", i, "]"), depth + 1));
    }
    return absl::OkStatus();
  }

  std::vector<PluginValue> values_;
};

}  // namespace

absl::StatusOr<std::vector<PluginValue>> PluginConfig(const google::protobuf::Struct& config) {
  Flattening flattening;
  DP_RETURN_IF_ERROR(flattening.AddAll(config, "", 1));
  return flattening.Take();
}

}  // namespace dp
