#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "base/rank.h"
#include "dp/v1/workers.pb.h"
#include "worker/agent/accounts/account.h"
#include "worker/agent/accounts/run_as.h"

namespace dp::worker {

// The accounts that this daemon's ranks run as. A look-up can take minutes, so a rank that needs
// one waits for it, and nothing else does. Each newly assigned rank causes a look-up of its own: a
// change in the user database counts from the next rank on. Not thread-safe; owned by the agent.
class RankAccounts {
 public:
  // `ask` starts the look-up of a name; the owner passes the answer on to Found. Not called under
  // the policy kSelf.
  RankAccounts(RunAs run_as, std::function<void(const std::string& name)> ask);

  // The rank is newly assigned. Known facts about its account may be old, and so may the answer to
  // an earlier question.
  void Assigned(const v1::AssignedRank& rank);
  // Forgets the accounts of all other ranks.
  void KeepFor(const absl::btree_map<RankKey, v1::AssignedRank>& assigned);
  // Whether the rank can be started, or refused, now. Otherwise its account is being looked up.
  bool Known(const v1::AssignedRank& rank);
  // The answer to a question.
  void Found(const std::string& name, absl::StatusOr<Account> account);
  // The account of a rank; none: the daemon's user. Precondition: Known. Errors: those of
  // AccountFor and AccountNameFor.
  absl::StatusOr<std::optional<Account>> Of(const v1::AssignedRank& rank,
                                            const std::string& worker) const;

 private:
  // Empty: there is nothing to look up.
  std::string NameFor(const v1::AssignedRank& rank) const;

  const RunAs run_as_;
  const std::function<void(const std::string&)> ask_;
  std::set<std::string> asked_;      // questions without an answer
  std::set<std::string> ask_again_;  // those whose answer will be old
  std::map<std::string, absl::StatusOr<Account>> found_;
};

}  // namespace dp::worker
