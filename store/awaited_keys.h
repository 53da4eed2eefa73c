#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "store/operation.h"

namespace dp {

// The names that an await of `reads` depends on: it can only end when one of them changes. A name
// appears as often as the reads name it.
// Errors: InvalidArgument an operation that changes something, or a list, which depends on all
// names.
absl::StatusOr<std::vector<std::string>> AwaitedKeys(absl::Span<const StoreOperation> reads);

}  // namespace dp
