#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dp/backend.h"
#include "worker/engine/collectives/group.h"

// The backends that the program has registered. Thread-safe. Names are in lower case.

namespace dp::library {

bool IsRegistered(absl::string_view name);

// Joins by a registered backend, and waits for all ranks. Throws what its factory throws, and
// kProgramFailed if that is no std::exception, or if it returns nothing. Errors: those of
// ConnectExchange.
absl::StatusOr<std::unique_ptr<engine::Group>> JoinByUserBackend(
    absl::string_view name, const distributed::BackendPlace& place);

}  // namespace dp::library
