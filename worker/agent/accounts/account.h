#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace dp::worker {

// An account of this host, as the system's user database has it.
struct Account {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups = {};  // all of them, `gid` too
  std::string home = {};
  std::string shell = {};

  bool operator==(const Account&) const = default;
};

// The most groups that a rank can be given. Their numbers are one argument of its guard, and the
// kernel limits an argument to 128 KiB.
inline constexpr int kGroupsMax = 8192;

// Looks the account and its groups up. Accepts no other spelling of the name: some databases ignore
// case or domains, and two people could then share an account. Asks the system's user database,
// which may be a server that does not answer for minutes. Any thread.
// Errors: NotFound there is no account of exactly this name; ResourceExhausted it is in more than
// kGroupsMax groups; Unavailable the database cannot answer.
absl::StatusOr<Account> FindAccount(const std::string& name);

}  // namespace dp::worker
