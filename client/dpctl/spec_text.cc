#include "client/dpctl/spec_text.h"

#include "base/check.h"
#include "google/protobuf/util/json_util.h"
#include "yaml-cpp/yaml.h"

namespace dp::ctl {
namespace {

// JSON is read in flow style; people read block style. An empty mapping has none.
void UseBlockStyle(YAML::Node node) {
  if (node.IsScalar() || node.size() == 0) return;
  node.SetStyle(YAML::EmitterStyle::Block);
  for (auto child : node) UseBlockStyle(node.IsMap() ? child.second : YAML::Node(child));
}

}  // namespace

std::string SpecJson(const v1::JobSpec& spec) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  std::string json;
  DP_CHECK(google::protobuf::util::MessageToJsonString(spec, &json, options).ok());
  return json;
}

std::string SpecYaml(const v1::JobSpec& spec) {
  YAML::Node node = YAML::Load(SpecJson(spec));
  UseBlockStyle(node);
  return YAML::Dump(node) + "\n";
}

}  // namespace dp::ctl
