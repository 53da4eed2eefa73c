#pragma once

#include "absl/status/status.h"
#include "dp/v1/inference.pb.h"

namespace dp::trainer {

// Puts the places of a test set into `data`, the form of a model's samples. Without any, the places
// that `data` has stay. Files for the test alone also end a `validation`: all their samples count.
// Pure. Errors: InvalidArgument data of this kind has no such place, or there is none; the remedy
// is a flag of dpctl.
absl::Status TakePlaces(const v1::DataPlaces& places, v1::DataSpec& data);

}  // namespace dp::trainer
