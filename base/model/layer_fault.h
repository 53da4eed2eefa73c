#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/model/layer_spec.h"

namespace dp::model {

// A mistake in a layer, whatever the data.
struct LayerFault {
  size_t layer = 0;   // its position
  std::string field;  // of its kind as in a job file, such as "out"; "name", "input" or "device"
  std::string what;   // "layer 'head' (linear): out is -1; it must be above 0"
};

// The first fault of a model's layers. Faults are numbers out of range, names that are taken,
// references to layers that are not above, and outputs that no layer takes. dpctl and the
// coordinator thus reject layers whose data only the workers see. Pure.
std::optional<LayerFault> FindFault(absl::Span<const LayerSpec> layers);

// Whether a layer may have this name: up to 128 letters, digits, '_', '-' and '.'. Names appear in
// logs, metrics and weight files.
bool IsLayerName(absl::string_view name);

// The layer's own name, or its default.
std::string NameOf(const LayerSpec& layer, size_t position);

}  // namespace dp::model
