#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/security/certificate.h"

// Errors about certificates that are not valid at the time of this host's clock. They show both
// times, because the clock may be what is wrong. Thread-safe.

namespace dp::client {

// In UTC, to the second.
std::string UtcText(absl::Time time);

// "this host's clock says 2026-01-02T03:04:05+00:00".
std::string ClockText();

// `what` names the certificate at the start of the error.
// Errors: Unauthenticated it has expired, or is not valid yet.
absl::Status CheckValidNow(const security::Certificate& certificate, absl::string_view what);

}  // namespace dp::client
