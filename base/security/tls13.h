#pragma once

#include "absl/status/status.h"

namespace dp::security {

// From now on no TLS connection of this process uses a version below 1.3 (RFC 8446), and no server
// sends tickets for later sessions. gRPC's credentials cannot say so themselves. Call it in main,
// before the first connection. Errors: Internal OpenSSL refuses; names its reason.
absl::Status RequireTls13();

}  // namespace dp::security
