#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/store/operation.h"

// Store operations as the bytes of a store file. Little-endian: all who share a file are of one
// kind of machine. Pure.

namespace dp {

// Of the operations that change something; reads are left out.
std::string EncodeChanges(absl::Span<const StoreOperation> operations);
// Errors: DataLoss the bytes are not what EncodeChanges made.
absl::StatusOr<std::vector<StoreOperation>> DecodeChanges(absl::string_view bytes);

}  // namespace dp
