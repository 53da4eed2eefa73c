#include "server/program/list_expiry.h"

#include <utility>

namespace dp::server {

std::vector<RevocationListWatch::Warning> RevocationListWatch::Due(
    const std::vector<RevocationList>& lists, absl::Time now) {
  std::map<std::string, const RevocationList*> latest;
  for (const RevocationList& list : lists) {
    const RevocationList*& kept = latest.try_emplace(list.issuer, &list).first->second;
    if (list.ends > kept->ends) kept = &list;
  }
  std::vector<Warning> due;
  std::map<std::string, Said> said;
  for (const auto& [issuer, list] : latest) {
    if (list->ends > now + kSoon) continue;
    const bool expired = list->ends <= now;
    const auto before = said_.find(issuer);
    const bool known = before != said_.end() && before->second.ends == list->ends &&
                       before->second.expired == expired;
    if (known && (!expired || now < before->second.at + kAgain)) {
      said.insert(*before);
      continue;
    }
    due.push_back({*list, expired});
    said.emplace(issuer, Said{list->ends, expired, now});
  }
  said_ = std::move(said);
  return due;
}

}  // namespace dp::server
