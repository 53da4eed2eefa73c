#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "store/store.h"

namespace dp::library {

// Whether all ranks that meet want the same backend: that of the first rank counts. Costs a rank
// one request as long as they agree. A rank that differs objects (Unanimity); the others learn that
// by BackendsDiffer. Errors: InvalidArgument names two ranks and their backends. Also the store's.
absl::Status AgreeOnBackend(Store& keys, Store& objections, int rank, absl::string_view backend);

// The meaning of an objection to the group: OK unless backends differ, else the same error.
absl::Status BackendsDiffer(absl::string_view objection);

}  // namespace dp::library
