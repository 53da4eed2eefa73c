#include "client/certificate_validity.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace dp::client {

std::string UtcText(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

std::string ClockText() { return absl::StrCat("this host's clock says ", UtcText(absl::Now())); }

absl::Status CheckValidNow(const security::Certificate& certificate, absl::string_view what) {
  const absl::Time now = absl::Now();
  if (certificate.not_after() <= now) {
    return absl::UnauthenticatedError(
        absl::StrCat(what, " expired at ", UtcText(certificate.not_after()), ", and ", ClockText(),
                     "; set the clock if it is wrong, else the certificate must be renewed where "
                     "it was made"));
  }
  if (now < certificate.not_before()) {
    return absl::UnauthenticatedError(
        absl::StrCat(what, " is not valid before ", UtcText(certificate.not_before()), ", and ",
                     ClockText(), "; set the clock that is wrong, here or there"));
  }
  return absl::OkStatus();
}

}  // namespace dp::client
