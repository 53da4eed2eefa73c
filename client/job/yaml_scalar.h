#pragma once

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "yaml-cpp/yaml.h"

// Reads one YAML scalar into one field of a protobuf message. Pure.

namespace dp::client {

// The value as in errors: the number 7, "text", a list, a mapping, empty.
std::string Shown(const YAML::Node& node);

// Sets a field that is neither a message nor a map; adds to a repeated one.
// Errors: InvalidArgument "is <value>; expected <type>"; the caller puts the field's name before
// it.
absl::Status SetScalar(const YAML::Node& node, const google::protobuf::FieldDescriptor& field,
                       google::protobuf::Message& message);

bool IsDuration(const google::protobuf::Message& message);

// Errors: as SetScalar. `message` is a google.protobuf.Duration.
absl::Status SetDuration(const YAML::Node& node, google::protobuf::Message& message);

}  // namespace dp::client
