#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "dp/distributed.h"
#include "worker/library/init_method.h"
#include "worker/library/open_store.h"

namespace dp::library {

// Opens the store where the ranks of `meeting` meet, and serves it if that is this rank's task.
// Errors: those of OpenFileStore and OpenTcpStore; FailedPrecondition another process has joined
// as this rank.
absl::StatusOr<std::shared_ptr<OpenStore>> OpenMeeting(const distributed::InitOptions& options,
                                                       const Meeting& meeting);

}  // namespace dp::library
