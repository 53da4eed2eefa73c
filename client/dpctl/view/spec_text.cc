#include "client/dpctl/view/spec_text.h"

#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "google/protobuf/util/json_util.h"
#include "proto/convert/json_options.h"
#include "proto/job/job_spec.h"
#include "yaml-cpp/yaml.h"

namespace dp::ctl {
namespace {

// Whether nprocPerNode is gpu, cpu or auto: dpctl sets the number of ranks when it submits the job.
bool CountsLater(const v1::JobSpec& spec) {
  int number = 0;
  const std::string& each = RanksPerNodeField(spec);
  return !each.empty() && !absl::SimpleAtoi(each, &number);
}

// YAML loaded from JSON has flow style; people read block style. An empty mapping has no block
// style.
void UseBlockStyle(YAML::Node node) {
  if (node.IsScalar() || node.size() == 0) return;
  node.SetStyle(YAML::EmitterStyle::Block);
  for (auto child : node) UseBlockStyle(node.IsMap() ? child.second : YAML::Node(child));
}

// The config of a plug-in, which is the user's: its names in a fixed order, and all values.
YAML::Node Sorted(const YAML::Node& node) {
  if (!node.IsMap()) return node;
  std::map<std::string, YAML::Node> values;
  for (const auto& child : node) values[child.first.Scalar()] = Sorted(child.second);
  YAML::Node sorted(YAML::NodeType::Map);
  for (const auto& [name, value] : values) sorted[name] = value;
  return sorted;
}

// Leaves out empty texts and lists, which mean the same as their absence. Keeps empty mappings: one
// may be all that names a layer's kind.
YAML::Node WithoutEmpty(const YAML::Node& node) {
  if (node.IsScalar()) return node;
  YAML::Node kept(node.Type());
  for (const auto& child : node) {
    if (node.IsSequence()) {
      kept.push_back(WithoutEmpty(child));
      continue;
    }
    const YAML::Node& value = child.second;
    if (child.first.Scalar() == "config") {
      kept["config"] = Sorted(value);
      continue;
    }
    const bool empty =
        value.IsScalar() ? value.Scalar().empty() : value.IsSequence() && !value.size();
    if (!empty) kept[child.first.Scalar()] = WithoutEmpty(value);
  }
  return kept;
}

// Writes a list of train.data that has one number as the number, which means the same. Each level
// of the JSON text is indented by one space more, and texts hold no line breaks.
void WriteSingleNumber(const std::string& field, std::string& json) {
  const size_t train = json.find("\n \"train\": {");
  if (train == std::string::npos) return;
  const size_t data = json.find("\n  \"data\": {", train);
  if (data == std::string::npos) return;
  const std::string begin = absl::StrCat("\n   \"", field, "\": [");
  const size_t at = json.find(begin, data);
  if (at >= json.find("\n  }", data)) return;
  const size_t first = at + begin.size();
  const size_t end = json.find(']', first);
  const std::string list = json.substr(first, end - first);
  const absl::string_view one = absl::StripAsciiWhitespace(list);
  if (one.empty() || absl::StrContains(one, ",")) return;
  json.replace(first - 1, end - first + 2, std::string(one));
}

}  // namespace

std::string SpecJson(const v1::JobSpec& spec) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  PrintDefaults(&options);  // a default of 0 is a default, too
  std::string json;
  DP_CHECK(google::protobuf::util::MessageToJsonString(spec, &json, options).ok());
  // Fields of the job itself are indented by one space.
  if (CountsLater(spec))
    DP_CHECK(
        absl::StrReplaceAll({{absl::StrCat("\n \"ranks\": ", spec.ranks(), ","), ""}}, &json) == 1);
  WriteSingleNumber("mean", json);
  WriteSingleNumber("std", json);
  return json;
}

std::string SpecYaml(const v1::JobSpec& spec) {
  YAML::Node node = WithoutEmpty(YAML::Load(SpecJson(spec)));
  // Variables in a fixed order, including those with an empty value.
  YAML::Node variables(YAML::NodeType::Map);
  for (const auto& [name, value] : std::map(spec.env().begin(), spec.env().end())) {
    variables[name] = value;
  }
  node["env"] = variables;
  if (spec.env().empty()) node.remove("env");
  UseBlockStyle(node);
  return YAML::Dump(node) + "\n";
}

}  // namespace dp::ctl
