#include "worker/agent/rank_accounts.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace dp::worker {
namespace {

JobOwner OwnerOf(const v1::AssignedRank& rank) {
  JobOwner job{.job = rank.job()};
  if (rank.has_owner()) job.owner = rank.owner();
  return job;
}

}  // namespace

RankAccounts::RankAccounts(RunAs run_as, std::function<void(const std::string&)> ask)
    : run_as_(std::move(run_as)), ask_(std::move(ask)) {}

std::string RankAccounts::NameFor(const v1::AssignedRank& rank) const {
  if (!run_as_.changes_user()) return "";
  return AccountNameFor(run_as_, OwnerOf(rank), "").value_or("");
}

void RankAccounts::Assigned(const v1::AssignedRank& rank) {
  const std::string name = NameFor(rank);
  found_.erase(name);
  if (asked_.contains(name)) ask_again_.insert(name);
}

void RankAccounts::KeepFor(const absl::btree_map<RankKey, v1::AssignedRank>& assigned) {
  std::set<std::string> names;
  for (const auto& [key, rank] : assigned) names.insert(NameFor(rank));
  std::erase_if(found_, [&](const auto& found) { return !names.contains(found.first); });
}

bool RankAccounts::Known(const v1::AssignedRank& rank) {
  const std::string name = NameFor(rank);
  if (name.empty() || found_.contains(name)) return true;
  if (asked_.insert(name).second) ask_(name);
  return false;
}

void RankAccounts::Found(const std::string& name, absl::StatusOr<Account> account) {
  if (ask_again_.erase(name) > 0) return ask_(name);
  asked_.erase(name);
  found_.insert_or_assign(name, std::move(account));
}

absl::StatusOr<std::optional<Account>> RankAccounts::Of(const v1::AssignedRank& rank,
                                                        const std::string& worker) const {
  if (!run_as_.changes_user()) return std::nullopt;
  const JobOwner job = OwnerOf(rank);
  DP_ASSIGN_OR_RETURN(const std::string name, AccountNameFor(run_as_, job, worker));
  const auto found = found_.find(name);
  DP_CHECK(found != found_.end());
  DP_ASSIGN_OR_RETURN(Account account, AccountFor(run_as_, job, found->second, worker));
  return std::optional(std::move(account));
}

}  // namespace dp::worker
