#include "server/access/caller.h"

#include "absl/strings/str_cat.h"

namespace dp::server {

std::string ToString(const Caller& caller) {
  switch (caller.kind) {
    case Caller::Kind::kInsecure:
      return absl::StrCat("anybody at ", caller.peer);
    case Caller::Kind::kStranger:
      return "a caller without a credential";
    case Caller::Kind::kCertificate:
      return security::ToString(caller.identity);
    case Caller::Kind::kRank:
      return absl::StrCat("rank ", caller.rank.rank.rank, " of job ",
                          caller.rank.rank.job.ToString());
  }
  return "?";
}

}  // namespace dp::server
