#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "base/model/layer_spec.h"
#include "dp/v1/job_spec.pb.h"

namespace dp {

// The layers of a model as plain structs, with a preset replaced by its layers. Pure.
// Errors: NotFound no such preset; InvalidArgument "layers[2]: a layer has no kind".
absl::StatusOr<std::vector<model::LayerSpec>> ModelLayers(const v1::ModelSpec& spec);

}  // namespace dp
