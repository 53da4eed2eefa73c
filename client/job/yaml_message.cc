#include "client/job/yaml_message.h"

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "client/job/nearest_name.h"
#include "client/job/yaml_scalar.h"
#include "client/job/yaml_struct.h"

namespace dp::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

Place PlaceOf(const YAML::Node& node) {
  const YAML::Mark mark = node.Mark();
  return mark.is_null() ? Place{} : Place{mark.line + 1, mark.column + 1};
}

std::string In(const std::string& path) { return path.empty() ? std::string("the job") : path; }

std::string Child(const std::string& path, absl::string_view name) {
  return path.empty() ? std::string(name) : absl::StrCat(path, ".", name);
}

// "train.model.layers[0]" -> "train".
std::string Outermost(const std::string& path) { return path.substr(0, path.find_first_of(".[")); }

const FieldDescriptor* FindField(const Descriptor& type, const std::string& name) {
  for (int i = 0; i < type.field_count(); ++i)
    if (type.field(i)->json_name() == name) return type.field(i);
  return nullptr;
}

// Whether the message is a choice among messages, and nothing else.
bool IsChoice(const Descriptor& type) {
  return type.real_oneof_decl_count() == 1 &&
         type.oneof_decl(0)->field_count() == type.field_count();
}

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.emplace_back(type.field(i)->json_name());
  return names;
}

// Walks the YAML tree and the message side by side. Message types do not contain themselves but for
// Struct, whose depth SetStruct bounds; so the depth is bounded for any input.
class MessageFiller {
 public:
  MessageFiller(FieldSource& source, const Descriptor& job) : source_(source), job_(job) {}

  absl::Status Fill(const YAML::Node& node, const std::string& path, Message& message) {
    const Descriptor& type = *message.GetDescriptor();
    // "- relu:" is complete for a message without fields.
    if (node.IsNull() && type.field_count() == 0) return absl::OkStatus();
    if (node.IsScalar() && IsChoice(type)) return Choose(node, path, message);
    if (!node.IsMap()) return WrongType(node, path, MappingFor(node, type));
    std::set<std::string> seen;
    for (const auto& entry : node) {
      DP_ASSIGN_OR_RETURN(std::string key, Key(entry.first, path, seen));
      const FieldDescriptor* field = FindField(type, key);
      if (field == nullptr) return UnknownField(entry.first, key, path, type);
      DP_RETURN_IF_ERROR(CheckOneof(entry.first, path, *field, message));
      // YAML's place of nothing is that of the next token.
      source_.Note(Child(path, key), PlaceOf(entry.second.IsNull() ? entry.first : entry.second));
      DP_RETURN_IF_ERROR(FillField(entry.second, Child(path, key), *field, message));
    }
    return absl::OkStatus();
  }

 private:
  // An alternative by its name alone: all its fields have their defaults.
  absl::Status Choose(const YAML::Node& name, const std::string& path, Message& message) {
    const Descriptor& type = *message.GetDescriptor();
    const FieldDescriptor* field = FindField(type, name.Scalar());
    if (field == nullptr || field->message_type() == nullptr) {
      return WrongType(name, path,
                       absl::StrCat("one of ", absl::StrJoin(FieldNames(type), ", "),
                                    ", or a mapping of one of them to its fields"));
    }
    source_.Note(Child(path, name.Scalar()), PlaceOf(name));
    message.GetReflection()->MutableMessage(&message, field);
    return absl::OkStatus();
  }

  // The expected kind of value in place of `node`. "- relu" lacks a colon.
  static std::string MappingFor(const YAML::Node& node, const Descriptor& type) {
    const FieldDescriptor* field = node.IsScalar() ? FindField(type, node.Scalar()) : nullptr;
    const bool complete = field != nullptr && field->message_type() != nullptr && !field->is_map();
    return absl::StrCat("a mapping of fields",
                        complete ? absl::StrCat(", such as ", node.Scalar(), ": {}") : "");
  }

  // The key as text, which must not be in `seen` yet.
  absl::StatusOr<std::string> Key(const YAML::Node& key, const std::string& path,
                                  std::set<std::string>& seen) const {
    if (!key.IsScalar())
      return source_.ErrorAt(
          path, PlaceOf(key),
          absl::StrCat("a field's name in ", In(path), " is ", Shown(key), "; expected a word"));
    if (!seen.insert(key.Scalar()).second)
      return source_.ErrorAt(
          path, PlaceOf(key),
          absl::StrCat("field '", key.Scalar(), "' in ", In(path), " is given twice; keep one"));
    return key.Scalar();
  }

  absl::Status UnknownField(const YAML::Node& key, const std::string& name, const std::string& path,
                            const Descriptor& type) const {
    const std::vector<std::string> names = FieldNames(type);
    const std::string nearest = NearestName(name, names);
    std::string hint;
    if (!path.empty() && FindField(job_, name) != nullptr) {
      hint = absl::StrCat("; '", name, "' is a field of the job itself: write it beside '",
                          Outermost(path), "'");
    } else if (!nearest.empty()) {
      hint = absl::StrCat("; did you mean '", nearest, "'?");
    } else if (!names.empty()) {
      hint = absl::StrCat("; there are ", absl::StrJoin(names, ", "));
    }
    return source_.ErrorAt(Child(path, name), PlaceOf(key),
                           absl::StrCat("unknown field '", name, "' in ", In(path), hint));
  }

  absl::Status CheckOneof(const YAML::Node& key, const std::string& path,
                          const FieldDescriptor& field, const Message& message) const {
    const auto* oneof = field.real_containing_oneof();
    if (oneof == nullptr) return absl::OkStatus();
    const FieldDescriptor* other = message.GetReflection()->GetOneofFieldDescriptor(message, oneof);
    if (other == nullptr) return absl::OkStatus();
    return source_.ErrorAt(path, PlaceOf(key),
                           absl::StrCat("'", field.json_name(), "' in ", In(path), " excludes '",
                                        other->json_name(), "', which is given, too; keep one"));
  }

  absl::Status FillField(const YAML::Node& value, const std::string& path,
                         const FieldDescriptor& field, Message& message) {
    if (field.is_map()) return FillMap(value, path, field, message);
    if (field.is_repeated()) return FillRepeated(value, path, field, message);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE)
      return FillScalar(value, path, field, message);
    Message& child = *message.GetReflection()->MutableMessage(&message, &field);
    return FillChild(value, path, child);
  }

  absl::Status FillChild(const YAML::Node& value, const std::string& path, Message& child) {
    if (IsStruct(child)) {
      const absl::Status status = SetStruct(value, child);
      return status.ok() ? status : source_.Error(path, absl::StrCat(path, status.message()));
    }
    if (!IsDuration(child)) return Fill(value, path, child);
    const absl::Status status = SetDuration(value, child);
    return status.ok() ? status : source_.Error(path, absl::StrCat(path, " ", status.message()));
  }

  absl::Status FillScalar(const YAML::Node& value, const std::string& path,
                          const FieldDescriptor& field, Message& message) const {
    const absl::Status status = SetScalar(value, field, message);
    return status.ok() ? status : source_.Error(path, absl::StrCat(path, " ", status.message()));
  }

  absl::Status FillRepeated(const YAML::Node& value, const std::string& path,
                            const FieldDescriptor& field, Message& message) {
    // A list of one number may be written as the number.
    if (value.IsScalar() && field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE)
      return FillScalar(value, path, field, message);
    if (!value.IsSequence()) return WrongType(value, path, "a list");
    for (size_t i = 0; i < value.size(); ++i) {
      const std::string element = absl::StrCat(path, "[", i, "]");
      source_.Note(element, PlaceOf(value[i]));
      if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
        DP_RETURN_IF_ERROR(FillScalar(value[i], element, field, message));
      } else {
        Message& child = *message.GetReflection()->AddMessage(&message, &field);
        DP_RETURN_IF_ERROR(FillChild(value[i], element, child));
      }
    }
    return absl::OkStatus();
  }

  // A map field is a repeated message of a key and a value.
  absl::Status FillMap(const YAML::Node& value, const std::string& path,
                       const FieldDescriptor& field, Message& message) {
    if (!value.IsMap()) return WrongType(value, path, "a mapping of names to values");
    std::set<std::string> seen;
    for (const auto& pair : value) {
      DP_ASSIGN_OR_RETURN(std::string key, Key(pair.first, path, seen));
      Message& entry = *message.GetReflection()->AddMessage(&message, &field);
      const Descriptor& type = *field.message_type();
      const std::string child = Child(path, key);
      DP_RETURN_IF_ERROR(FillScalar(pair.first, child, *type.map_key(), entry));
      DP_RETURN_IF_ERROR(FillField(pair.second, child, *type.map_value(), entry));
    }
    return absl::OkStatus();
  }

  absl::Status WrongType(const YAML::Node& node, const std::string& path,
                         absl::string_view expected) const {
    const std::string what = absl::StrCat(In(path), " is ", Shown(node), "; expected ", expected);
    return path.empty() ? source_.ErrorAt(path, PlaceOf(node), what) : source_.Error(path, what);
  }

  FieldSource& source_;
  const Descriptor& job_;  // the type of the outermost message
};

}  // namespace

absl::Status FillMessage(const YAML::Node& node, FieldSource& source,
                         google::protobuf::Message& message) {
  return MessageFiller(source, *message.GetDescriptor()).Fill(node, "", message);
}

}  // namespace dp::client
