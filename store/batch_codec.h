#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "store/operation.h"

// Store operations as the bytes of a store file. Little-endian: all processes that share a file run
// on one kind of machine. Pure.

namespace dp {

// Encodes the operations that change something; leaves out reads.
std::string EncodeChanges(absl::Span<const StoreOperation> operations);
// Errors: DataLoss the bytes did not come from EncodeChanges.
absl::StatusOr<std::vector<StoreOperation>> DecodeChanges(absl::string_view bytes);

}  // namespace dp
