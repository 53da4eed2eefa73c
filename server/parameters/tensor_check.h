#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/limits.h"
#include "dp/v1/parameters.pb.h"

namespace dp::server {

// A pull has the whole description in one message, with a chunk and what goes around both.
inline constexpr size_t kVersionDescriptionBytesMax = kMessageBytesMax - 2 * kParameterChunkBytes;

// The bytes of all tensors of a version, as its header announces them. Pure.
// Errors: InvalidArgument names the tensor and what is wrong: its name, type, shape or size.
absl::StatusOr<uint64_t> CheckTensors(const v1::ParameterVersion& version);
// Errors: InvalidArgument the texts that go with the tensors are too long together.
absl::Status CheckMetadata(const v1::ParameterVersion& version);
// Errors: InvalidArgument names, shapes and texts have more than kVersionDescriptionBytesMax.
absl::Status CheckDescription(const v1::ParameterVersion& version);

}  // namespace dp::server
