#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/parameters.h"
#include "dp/v1/parameters.pb.h"

namespace dp::client {

// Adds weights in the safetensors format to a set, as its next version. Tensors keep the order of
// their data. The encoding's texts take the place of those of `options`. Errors: those of
// DecodeSafetensors and Parameters::Push.
absl::StatusOr<v1::ParameterVersion> PushWeights(Parameters& parameters, const ParameterSet& set,
                                                 absl::string_view encoded,
                                                 Parameters::PushOptions options);

// With this before its data, a version that was pulled is a safetensors file.
std::string HeaderOf(const v1::ParameterVersion& version);

}  // namespace dp::client
