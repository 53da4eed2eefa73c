#include "server/access/authority.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace dp::server {

using security::Role;

absl::StatusOr<IssuedCertificate> Authority::Sign(const std::string& signing_request,
                                                  const security::Grant& grant,
                                                  absl::Time now) const {
  DP_ASSIGN_OR_RETURN(const security::Certificate issued,
                      authority_.Issue(signing_request, grant, now));
  const std::string own = authority_.certificate().ToPem();
  return IssuedCertificate{absl::StrCat(issued.ToPem(), own), own};
}

absl::StatusOr<IssuedCertificate> Authority::Issue(const std::string& signing_request,
                                                   const security::Identity& identity,
                                                   absl::Time now) const {
  const absl::Duration lifetime = identity.role == Role::kWorker ? kOfWorkers : kOfPeople;
  return Sign(signing_request, {.identity = identity, .lifetime = lifetime}, now);
}

absl::StatusOr<IssuedCertificate> Authority::IssueToCoordinator(
    const std::string& signing_request, const std::vector<std::string>& hosts,
    absl::Time now) const {
  return Sign(signing_request,
              {.identity = {Role::kCoordinator, "dp"}, .hosts = hosts, .lifetime = kOfCoordinators},
              now);
}

std::string Authority::JoinToken(const security::Identity& identity, int uses, absl::Time now,
                                 absl::Duration valid_for) const {
  return tokens_.JoinToken({.made_at = now,
                            .expires_at = now + valid_for,
                            .fingerprint = authority_.certificate().Fingerprint(),
                            .identity = identity,
                            .uses = uses});
}

}  // namespace dp::server
