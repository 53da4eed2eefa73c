#include "base/security/safe_path.h"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"

namespace dp::security {
namespace {

namespace fs = std::filesystem;

// The kernel follows as many.
constexpr int kLinksMax = 40;
// Holds an entry of the user database. A group that does not fit has many members.
constexpr size_t kEntryBytesMax = 64 * 1024;

// Empty: the user database has no such user.
std::string UserName(uid_t uid) {
  std::vector<char> buffer(kEntryBytesMax);
  passwd entry{};
  passwd* found = nullptr;
  getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
  return found == nullptr ? "" : found->pw_name;
}

// Distributions make a group for each account, with its name or number. In a container neither may
// have a name.
bool IsOwnGroup(gid_t gid) {
  std::vector<char> buffer(kEntryBytesMax);
  group entry{};
  group* found = nullptr;
  const int error = getgrgid_r(gid, &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr) return error != ERANGE && gid == geteuid();
  const std::string user = UserName(geteuid());
  for (char** member = found->gr_mem; *member != nullptr; ++member) {
    if (*member != user) return false;
  }
  return gid == geteuid() || found->gr_name == user;
}

std::string OwnerText(const struct stat& found) {
  const std::string name = UserName(found.st_uid);
  return absl::StrCat("user ", name.empty() ? absl::StrCat(found.st_uid) : name);
}

absl::Status CheckOwner(const fs::path& path, const struct stat& found, bool on_way) {
  if (found.st_uid == geteuid() || found.st_uid == 0) return absl::OkStatus();
  // In a user namespace root may have another number. Whoever owns `/` can replace every file.
  struct stat top {};
  if (on_way && stat("/", &top) == 0 && top.st_uid == found.st_uid) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrFormat("%s (mode %04o) belongs to another user, %s",
                                                     path.string(), found.st_mode & 07777,
                                                     OwnerText(found)));
}

absl::Status CheckMode(const fs::path& path, const struct stat& found, bool on_way) {
  if (S_ISLNK(found.st_mode)) return absl::OkStatus();  // a link has no mode
  const bool sticky = S_ISDIR(found.st_mode) && (found.st_mode & S_ISVTX) != 0;
  if (on_way && sticky) return absl::OkStatus();
  const bool by_group = (found.st_mode & S_IWGRP) != 0 && !IsOwnGroup(found.st_gid);
  if ((found.st_mode & S_IWOTH) == 0 && !by_group) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrFormat(
      "%s (of %s, mode %04o) can be written by other users; check its contents, and run 'chmod "
      "go-w %s'",
      path.string(), OwnerText(found), found.st_mode & 07777, path.string()));
}

// Puts the parts of `path` before those that are still to go.
void PutFirst(const fs::path& path, std::deque<fs::path>& to_go) {
  std::vector<fs::path> parts;
  for (const fs::path& part : path.relative_path()) {
    if (!part.empty() && part != ".") parts.push_back(part);  // empty behind a slash at the end
  }
  to_go.insert(to_go.begin(), parts.begin(), parts.end());
}

absl::Status NotSeen(const fs::path& path, int error) {
  const std::string why = absl::StrCat(path.string(), ": ", std::generic_category().message(error));
  const bool missing = error == ENOENT || error == ENOTDIR;
  return missing ? absl::NotFoundError(why) : absl::PermissionDeniedError(why);
}

absl::Status CheckUnread(const std::string& path, const struct stat& found) {
  const bool of_root = found.st_uid == 0 && geteuid() != 0;
  const bool by_group = (found.st_mode & 0070) != 0 && !of_root && !IsOwnGroup(found.st_gid);
  if ((found.st_mode & 0007) == 0 && !by_group) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrFormat(
      "%s (of %s, mode %04o) can be read by other users, and holds a secret; replace it if others "
      "may have read it, and run 'chmod 600 %s'",
      path, OwnerText(found), found.st_mode & 07777, path));
}

}  // namespace

absl::Status CheckSafePath(const std::string& path) {
  std::error_code error;
  fs::path at = "/";
  std::deque<fs::path> to_go;
  PutFirst(fs::absolute(path, error), to_go);
  for (int links = 0; !to_go.empty();) {
    const fs::path part = to_go.front();
    to_go.pop_front();
    if (part == "..") {
      at = at.parent_path();
      continue;
    }
    const fs::path next = at / part;
    struct stat found {};
    if (lstat(next.c_str(), &found) != 0) return NotSeen(next, errno);
    const bool on_way = !to_go.empty() || S_ISLNK(found.st_mode);
    DP_RETURN_IF_ERROR(CheckOwner(next, found, on_way));
    DP_RETURN_IF_ERROR(CheckMode(next, found, on_way));
    if (!S_ISLNK(found.st_mode)) {
      at = next;
      continue;
    }
    const fs::path target = fs::read_symlink(next, error);
    if (error) return NotSeen(next, error.value());
    if (++links > kLinksMax) return NotSeen(next, ELOOP);
    if (target.is_absolute()) at = "/";
    PutFirst(target, to_go);
  }
  return absl::OkStatus();
}

absl::Status CheckPrivateFile(const std::string& path) {
  DP_RETURN_IF_ERROR(CheckSafePath(path));
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return NotSeen(path, errno);
  return CheckUnread(path, found);
}

}  // namespace dp::security
