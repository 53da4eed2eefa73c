#pragma once

#include <cstdint>
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

// Writes a version of a set to a new file, in the safetensors format; version 0 is the latest.
// Weights that a rank has pushed become the bytes that it has encoded. Errors: those of
// Parameters::Pull; AlreadyExists there is such a file; the system's, with the path.
absl::StatusOr<v1::ParameterVersion> PullWeights(Parameters& parameters, const ParameterSet& set,
                                                 uint64_t version, const std::string& path);

}  // namespace dp::client
