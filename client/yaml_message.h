#pragma once

#include "absl/status/status.h"
#include "client/field_source.h"
#include "google/protobuf/message.h"
#include "yaml-cpp/yaml.h"

namespace dp::client {

// Fills `message` from a YAML mapping whose keys are the fields' JSON names, driven by the
// message's descriptor alone. Durations are written as 10s, 5m or 1h30m; an enum value by its name
// without the prefix, in any case. Notes in `source` where each field stands.
//
// Errors: InvalidArgument with the place, the field's path and what is wrong: an unknown field
// (with the nearest name there is), a field twice, two of a oneof, a value of another type or out
// of range.
absl::Status FillMessage(const YAML::Node& node, FieldSource& source,
                         google::protobuf::Message& message);

}  // namespace dp::client
