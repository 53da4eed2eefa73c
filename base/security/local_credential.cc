#include "base/security/local_credential.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/security/credential.h"
#include "base/security/safe_path.h"
#include "base/status.h"

namespace dp::security {
namespace {

namespace fs = std::filesystem;

constexpr char kEveryAddress[] = "*";

absl::Status NotUsable(const std::string& links, const std::string& why) {
  return absl::PermissionDeniedError(
      absl::StrCat("the directory of local credentials, ", links, ", cannot be used: ", why,
                   "; log in ('dpctl login'), or name the administrator's credential: "
                   "--credentials DIR/identity/admin"));
}

// Anybody may make a directory below /tmp first, under any name.
absl::Status CheckOurs(const std::string& links) {
  struct stat found {};
  if (lstat(links.c_str(), &found) != 0) {
    if (errno == ENOENT) return absl::NotFoundError(absl::StrCat(links, " does not exist"));
    return NotUsable(links, std::generic_category().message(errno));
  }
  if (!S_ISDIR(found.st_mode)) return NotUsable(links, "it is no directory");
  if (found.st_uid != geteuid()) return NotUsable(links, "it belongs to another user");
  if ((found.st_mode & 077) == 0) return absl::OkStatus();
  return NotUsable(links, "others may use it; its mode must be 0700");
}

std::string PortOf(const std::string& address) { return address.substr(address.rfind(':') + 1); }

bool IsWildcard(const std::string& address) {
  return absl::StartsWith(address, "0.0.0.0:") || absl::StartsWith(address, "[::]:");
}

std::string NameFor(const std::string& address) {
  return IsWildcard(address) ? absl::StrCat(kEveryAddress, ":", PortOf(address)) : address;
}

// Under which names the link for the address may be.
std::vector<std::string> NamesOf(const std::string& address) {
  const std::string port = PortOf(address);
  std::vector<std::string> names = {address, absl::StrCat(kEveryAddress, ":", port)};
  if (absl::StartsWith(address, "localhost:")) {
    for (const char* host : {"127.0.0.1:", "[::1]:"}) names.push_back(host + port);
  } else if (absl::StartsWith(address, "127.0.0.1:") || absl::StartsWith(address, "[::1]:")) {
    names.push_back("localhost:" + port);
  }
  return names;
}

// Another process may see more than this one, such as a mount of its own. Therefore only links go
// that nobody has renewed for a day.
bool IsOld(const fs::path& link) {
  struct stat found {};
  return lstat(link.c_str(), &found) == 0 && time(nullptr) - found.st_mtime > 24 * 3600;
}

void RemoveDangling(const std::string& links) {
  std::error_code error;
  for (const fs::directory_entry& link : fs::directory_iterator(links, error)) {
    const fs::path& path = link.path();
    if (!fs::exists(path, error) && IsOld(path)) fs::remove(path, error);
  }
}

// Whoever can write the files, or replace them, decides which coordinator the caller trusts.
// Errors: NotFound the directory does not exist; PermissionDenied.
absl::Status CheckTarget(const std::string& dir) {
  DP_RETURN_IF_ERROR(CheckSafePath(dir));
  return CheckCredentialFiles(dir);
}

}  // namespace

std::string LocalCredentialLinks() {
  const std::string run = absl::StrCat("/run/user/", geteuid());
  std::error_code error;
  return fs::is_directory(run, error) ? run + "/dp" : absl::StrCat("/tmp/dp-", geteuid());
}

absl::Status LinkLocalCredential(const std::string& address, const std::string& dir,
                                 const std::string& links) {
  if (mkdir(links.c_str(), 0700) != 0 && errno != EEXIST) {
    return NotUsable(links, std::generic_category().message(errno));
  }
  DP_RETURN_IF_ERROR(CheckOurs(links));
  RemoveDangling(links);
  std::error_code error;
  const fs::path link = fs::path(links) / NameFor(address);
  // Renamed into place, so that nobody finds it missing meanwhile.
  const fs::path draft = link.string() + ".new";
  fs::remove(draft, error);
  fs::create_symlink(fs::absolute(dir), draft, error);
  if (!error) fs::rename(draft, link, error);
  return error ? NotUsable(links, error.message()) : absl::OkStatus();
}

absl::StatusOr<std::string> FindLocalCredential(const std::string& address,
                                                const std::string& links) {
  DP_RETURN_IF_ERROR(CheckOurs(links));
  for (const std::string& name : NamesOf(address)) {
    std::error_code error;
    const fs::path link = fs::path(links) / name;
    const std::string target = fs::read_symlink(link, error).string();
    if (error) continue;
    const absl::Status usable = CheckTarget(target);
    if (usable.ok()) return target;
    if (!absl::IsNotFound(usable)) {
      return absl::PermissionDeniedError(absl::StrCat(
          "the local credential for ", address, ", ", target, ", is not used: ", usable.message(),
          "; if you trust it, name it: --credentials ", target,
          " --accept-other-users; else remove the link ", link.string()));
    }
    fs::remove(link, error);  // a coordinator that runs makes it again
  }
  return absl::NotFoundError(
      absl::StrCat("no coordinator of this user on this host listens on ", address));
}

void UnlinkLocalCredential(const std::string& address, const std::string& dir,
                           const std::string& links) {
  std::error_code error;
  const fs::path link = fs::path(links) / NameFor(address);
  if (fs::read_symlink(link, error) == fs::absolute(dir) && !error) fs::remove(link, error);
}

}  // namespace dp::security
