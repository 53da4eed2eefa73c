#pragma once

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "yaml-cpp/yaml.h"

// Reads YAML of any form into a google.protobuf.Struct. Pure.

namespace dp::client {

bool IsStruct(const google::protobuf::Message& message);

// `message` is a Struct. A plain scalar is a number, true, false, null, or else text; a quoted one
// is text. Errors: InvalidArgument what follows the field's name: ".a[1] has the key a list; ...".
// The bounds are those of plugin_config.h, so that aliases cannot take all memory.
absl::Status SetStruct(const YAML::Node& node, google::protobuf::Message& message);

}  // namespace dp::client
