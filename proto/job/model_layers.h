#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/model/layer_spec.h"
#include "dp/v1/job_spec.pb.h"

namespace dp {

// The layers of a model as plain structs, with a preset replaced by its layers. A plug-in that is
// the model is one layer, "model". Plug-ins are not loaded. Pure.
// Errors: NotFound no such preset; InvalidArgument "layers[2]: a layer has no kind", or as
// PluginConfig.
absl::StatusOr<std::vector<model::LayerSpec>> ModelLayers(const v1::ModelSpec& spec);

// The libraries that the model's plug-ins name, each once.
std::vector<std::string> PluginLibraries(const v1::ModelSpec& spec);

}  // namespace dp
