#include "server/access/caller.h"

#include "absl/strings/str_cat.h"

namespace dp::server {

namespace {

const char* RemedyOf(const Caller& caller) {
  if (caller.role_must_be_granted) return "renew it where it was made";
  if (!caller.is_person()) return "call again with a renewed one, or join again with a new token";
  return "call again with a renewed one, or log in again with a token of 'dpctl token'";
}

}  // namespace

absl::Status CertificateExpired(const Caller& caller) {
  return absl::UnauthenticatedError(
      absl::StrCat("the certificate of ", ToString(caller), " expired at ",
                   absl::FormatTime(caller.expires_at), "; ", RemedyOf(caller)));
}

std::string ToString(const Caller& caller) {
  switch (caller.kind) {
    case Caller::Kind::kInsecure:
      return absl::StrCat("anybody at ", caller.peer);
    case Caller::Kind::kStranger:
      return "a caller without a credential";
    case Caller::Kind::kCertificate:
      // The role in `identity` is a placeholder then, and not the holder's.
      if (caller.role_must_be_granted) return absl::StrCat("person ", caller.identity.name);
      return security::ToString(caller.identity);
    case Caller::Kind::kRank:
      return absl::StrCat("rank ", caller.rank.rank.rank, " of job ",
                          caller.rank.rank.job.ToString());
  }
  return "?";
}

}  // namespace dp::server
