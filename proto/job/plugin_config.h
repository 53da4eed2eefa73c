#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "base/model/layer_spec.h"
#include "google/protobuf/struct.pb.h"

namespace dp {

// A config that is larger belongs into a file, whose path it may give.
inline constexpr int kPluginConfigDepthMax = 16;
inline constexpr int kPluginConfigValuesMax = 1000;

// The values of a plug-in's config, each with its path, mappings by their sorted keys. Pure.
// Errors: InvalidArgument names the value: "config.a.b is nested more than 16 levels deep".
absl::StatusOr<std::vector<model::PluginValue>> PluginConfig(
    const google::protobuf::Struct& config);

}  // namespace dp
