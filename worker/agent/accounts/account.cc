#include "worker/agent/accounts/account.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace dp::worker {
namespace {

constexpr size_t kEntryBytes = 1 << 10;      // enough for usual entries
constexpr size_t kEntryBytesMax = 16 << 20;  // a larger entry is a fault of the database

// POSIX does not fix how getpwnam_r reports an unknown name; these are in use.
bool SaysUnknown(int error) {
  return error == 0 || error == ENOENT || error == ESRCH || error == EBADF || error == EPERM;
}

absl::Status Unknown(const std::string& name) {
  return absl::NotFoundError(absl::StrCat("this host has no account ", name));
}

absl::StatusOr<std::vector<gid_t>> GroupsOf(const std::string& name, gid_t gid) {
  std::vector<gid_t> groups(kGroupsMax);
  int count = kGroupsMax;
  if (getgrouplist(name.c_str(), gid, groups.data(), &count) < 0) {
    return absl::ResourceExhaustedError(absl::StrCat("account ", name, " is in ", count,
                                                     " groups, of which a rank can have ",
                                                     kGroupsMax, "; take it out of some"));
  }
  groups.resize(static_cast<size_t>(count));
  return groups;
}

}  // namespace

absl::StatusOr<Account> FindAccount(const std::string& name) {
  std::vector<char> text(kEntryBytes);
  passwd entry{};
  passwd* found = nullptr;
  int error = 0;
  while ((error = getpwnam_r(name.c_str(), &entry, text.data(), text.size(), &found)) == ERANGE &&
         text.size() < kEntryBytesMax) {
    text.resize(2 * text.size());
  }
  if (found == nullptr) {
    if (SaysUnknown(error)) return Unknown(name);
    return absl::UnavailableError(
        absl::StrCat("account ", name, " cannot be looked up: ", std::strerror(error),
                     "; look at the host's user database (nsswitch.conf)"));
  }
  if (found->pw_name != name) return Unknown(name);
  Account account{.name = name,
                  .uid = found->pw_uid,
                  .gid = found->pw_gid,
                  .home = found->pw_dir,
                  .shell = found->pw_shell};
  DP_ASSIGN_OR_RETURN(account.groups, GroupsOf(name, account.gid));
  return account;
}

}  // namespace dp::worker
