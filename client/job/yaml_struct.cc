#include "client/job/yaml_struct.h"

#include <cmath>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/job/yaml_scalar.h"
#include "google/protobuf/struct.pb.h"
#include "proto/job/plugin_config.h"

namespace dp::client {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

// "inf", "nan" and "1_000" are texts, as in JSON.
bool IsNumber(const std::string& text, double* number) {
  const char first = text.empty() ? ' ' : text.front();
  const bool begins = absl::ascii_isdigit(static_cast<unsigned char>(first)) || first == '-' ||
                      first == '+' || first == '.';
  return begins && absl::SimpleAtod(text, number) && std::isfinite(*number);
}

class StructFiller {
 public:
  absl::Status Fill(const YAML::Node& node, const std::string& path, int depth, Struct& into) {
    if (node.IsNull()) return absl::OkStatus();
    if (!node.IsMap()) {
      return StructError(
          path, absl::StrCat("is ", Shown(node), "; expected a mapping of names to values"));
    }
    DP_RETURN_IF_ERROR(CheckDepth(path, depth));
    for (const auto& entry : node) {
      const YAML::Node& key = entry.first;
      if (!key.IsScalar()) {
        return StructError(path, absl::StrCat("has the key ", Shown(key), "; expected a word"));
      }
      const std::string& name = key.Scalar();
      if (into.fields().contains(name)) {
        return StructError(path, absl::StrCat("has '", name, "' twice; keep one"));
      }
      DP_RETURN_IF_ERROR(FillValue(entry.second, absl::StrCat(path, ".", name), depth,
                                   (*into.mutable_fields())[name]));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status FillValue(const YAML::Node& node, const std::string& path, int depth, Value& into) {
    if (++count_ > kPluginConfigValuesMax) {
      return StructError("", absl::StrCat("has more than ", kPluginConfigValuesMax,
                                          " values; put them into a file, and give its path"));
    }
    if (node.IsScalar()) return FillScalar(node, into);
    if (node.IsMap()) return Fill(node, path, depth + 1, *into.mutable_struct_value());
    if (!node.IsSequence()) {
      into.set_null_value(google::protobuf::NULL_VALUE);
      return absl::OkStatus();
    }
    DP_RETURN_IF_ERROR(CheckDepth(path, depth + 1));
    into.mutable_list_value();
    for (size_t i = 0; i < node.size(); ++i) {
      DP_RETURN_IF_ERROR(FillValue(node[i], absl::StrCat(path, "[", i, "]"), depth + 1,
                                   *into.mutable_list_value()->add_values()));
    }
    return absl::OkStatus();
  }

  static absl::Status FillScalar(const YAML::Node& node, Value& into) {
    const std::string& text = node.Scalar();
    const bool quoted = node.Tag() == "!";
    double number = 0;
    if (!quoted && (text == "true" || text == "false")) {
      into.set_bool_value(text == "true");
    } else if (!quoted && IsNumber(text, &number)) {
      into.set_number_value(number);
    } else {
      into.set_string_value(text);
    }
    return absl::OkStatus();
  }

  static absl::Status CheckDepth(const std::string& path, int depth) {
    if (depth <= kPluginConfigDepthMax) return absl::OkStatus();
    return StructError(path, absl::StrCat("is nested more than ", kPluginConfigDepthMax,
                                          " levels deep; make it flatter, or put it into a file"));
  }
  static absl::Status StructError(const std::string& path, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(path, " ", what));
  }

  int count_ = 0;
};

}  // namespace

bool IsStruct(const google::protobuf::Message& message) {
  return message.GetDescriptor() == Struct::descriptor();
}

absl::Status SetStruct(const YAML::Node& node, google::protobuf::Message& message) {
  return StructFiller().Fill(node, "", 1, static_cast<Struct&>(message));
}

}  // namespace dp::client
