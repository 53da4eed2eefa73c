#pragma once

#include "absl/status/status.h"
#include "client/job/field_source.h"
#include "google/protobuf/message.h"
#include "yaml-cpp/yaml.h"

namespace dp::client {

// Fills `message` from a YAML mapping whose keys are the fields' JSON names, driven by the
// message's descriptor alone. Durations are written as 10s, 5m or 1h30m; an enum value as its name
// without the prefix, in any case. A choice among messages may be the name of the chosen one, whose
// fields then have their defaults. Records in `source` where each field stands.
//
// Errors: InvalidArgument with the place, the field's path and the mistake. Mistakes: an unknown
// field (with the nearest known name), a field twice, two of a oneof, a wrong type, a value out of
// range.
absl::Status FillMessage(const YAML::Node& node, FieldSource& source,
                         google::protobuf::Message& message);

}  // namespace dp::client
