#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/credentials.h"

namespace dp::client {

// Why the coordinator at `address` lets no call of such a caller in, with the remedy. gRPC reports
// a refused handshake as a lost connection, so this makes connections of its own and sees how far
// they come. Blocks. OK: nothing explains it, as when the coordinator is away or answers. Errors:
// Unauthenticated one side does not accept the other's certificate; FailedPrecondition one side
// uses TLS and the other does not.
absl::Status WhyRefused(const std::string& address, const CredentialFlags& flags,
                        absl::Duration timeout);

}  // namespace dp::client
