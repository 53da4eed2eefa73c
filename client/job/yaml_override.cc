#include "client/job/yaml_override.h"

#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "client/job/yaml_scalar.h"

namespace dp::client {
namespace {

absl::Status Wrong(absl::string_view override, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("--set ", override, ": ", what));
}

absl::Status NoElement(absl::string_view override, const std::string& part, size_t length) {
  return Wrong(override, absl::StrCat("there is no element '", part, "'; the list has ", length,
                                      ", counted from 0"));
}

// Splits "a.b[1]" into a, b, 1. Empty if a part is empty, or a bracket has no partner.
std::vector<std::string> Parts(absl::string_view path) {
  if (absl::c_count(path, '[') != absl::c_count(path, ']')) return {};
  const std::string dotted = absl::StrReplaceAll(path, {{"].", "."}, {"]", ""}, {"[", "."}});
  std::vector<std::string> parts = absl::StrSplit(dotted, '.');
  for (const std::string& part : parts)
    if (part.empty()) return {};
  return parts;
}

// The path of the node under `part` as FieldSource names it: "a.b[1]", also where the user wrote
// "a.b.1".
std::string PathBelow(const std::string& path, const YAML::Node& node, const std::string& part) {
  size_t index = 0;
  if (node.IsSequence() && absl::SimpleAtoi(part, &index))
    return absl::StrCat(path, "[", index, "]");
  return path.empty() ? part : absl::StrCat(path, ".", part);
}

// The node under `part`; for a list the element of that number. Undefined if there is none.
YAML::Node ChildOf(YAML::Node node, const std::string& part) {
  size_t index = 0;
  if (!node.IsSequence()) return node[part];
  const bool there = absl::SimpleAtoi(part, &index) && index < node.size();
  return there ? node[index] : YAML::Node(YAML::NodeType::Undefined);
}

}  // namespace

absl::StatusOr<std::string> ApplyOverride(absl::string_view override, YAML::Node root) {
  const std::vector<std::string> halves = absl::StrSplit(override, absl::MaxSplits('=', 1));
  const std::vector<std::string> parts = Parts(halves[0]);
  if (halves.size() != 2 || parts.empty())
    return Wrong(override, "expected path=value, as train.epochs=3");
  std::string path;
  try {
    YAML::Node node = root;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      YAML::Node child = ChildOf(node, parts[i]);
      const bool list = node.IsSequence();
      const size_t length = node.size();
      path = PathBelow(path, node, parts[i]);
      if ((!child.IsDefined() || child.IsNull()) && !list)
        node[parts[i]] = YAML::Node(YAML::NodeType::Map);
      node.reset(ChildOf(node, parts[i]));
      if (!node.IsDefined()) return NoElement(override, parts[i], length);
      if (!node.IsMap() && !node.IsSequence())
        return Wrong(override, absl::StrCat(path, " is ", Shown(node),
                                            ", which has no parts; set it as a whole"));
    }
    path = PathBelow(path, node, parts.back());
    YAML::Node value = YAML::Load(halves[1]);
    if (node.IsSequence()) {
      YAML::Node element = ChildOf(node, parts.back());
      if (!element.IsDefined()) return NoElement(override, parts.back(), node.size());
      element = value;
    } else {
      node[parts.back()] = value;
    }
  } catch (const YAML::Exception& error) {
    return Wrong(override,
                 absl::StrCat("the value is not YAML: ", error.msg, "; put it in quotes"));
  }
  return path;
}

}  // namespace dp::client
