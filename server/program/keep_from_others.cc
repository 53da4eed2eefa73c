#include "server/program/keep_from_others.h"

#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/program/log.h"
#include "base/security/safe_path.h"

namespace dp::server {
namespace {

// The directory with all that it holds, itself first.
std::vector<std::filesystem::path> AllOf(const std::filesystem::path& dir) {
  std::vector<std::filesystem::path> all = {dir};
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator at(dir, error), last; !error && at != last;
       at.increment(error)) {
    all.push_back(at->path());
  }
  return all;
}

// Whoever wrote a key knows it, and whoever can write one decides who is an administrator.
absl::Status CheckNotOfOthers(const std::vector<std::filesystem::path>& files) {
  for (const std::filesystem::path& file : files) {
    const absl::Status safe = security::CheckSafePath(file);
    if (safe.ok() || absl::IsNotFound(safe)) continue;
    return absl::PermissionDeniedError(absl::StrCat(
        "identity directory ", files.front().string(), " is not used: ", safe.message(),
        "; others could administer the cluster by it; choose another directory with --data-dir, or "
        "restore this one from a backup (docs/security.md)"));
  }
  return absl::OkStatus();
}

// Copies lose modes, as by `cp -r`. Whoever could read the keys may have done so; the log says it.
absl::Status CloseToOthers(const std::filesystem::path& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0 || (found.st_mode & 077) == 0) return absl::OkStatus();
  if (chmod(path.c_str(), found.st_mode & 0700) != 0) {
    return absl::PermissionDeniedError(
        absl::StrFormat("%s has mode %04o, and cannot be closed to other users: %s; run 'chmod "
                        "go= %s' as its owner",
                        path.string(), found.st_mode & 07777,
                        std::generic_category().message(errno), path.string()));
  }
  // Kubernetes opens volumes to a group.
  if ((found.st_mode & 07) == 0) return absl::OkStatus();
  Log(Severity::kWarning, "identity_open_to_others",
      {{"path", path.string()}, {"mode", absl::StrFormat("%04o", found.st_mode & 07777)}});
  return absl::OkStatus();
}

}  // namespace

absl::Status KeepFromOthers(const std::filesystem::path& dir, bool accept_other_users) {
  const std::vector<std::filesystem::path> files = AllOf(dir);
  absl::Status status = CheckNotOfOthers(files);
  if (status.ok() || accept_other_users) status.Update(CloseToOthers(dir));
  if (!status.ok() && !accept_other_users) return status;
  for (const std::filesystem::path& file : files) {
    std::error_code error;
    // In a closed directory, a file that root has put there may stay as it is.
    if (!std::filesystem::is_symlink(file, error)) (void)CloseToOthers(file);
  }
  if (status.ok()) return status;
  Log(Severity::kWarning, "data_dir_open_to_others",
      {{"path", dir.string()}, {"reason", std::string(status.message())}});
  return absl::OkStatus();
}

}  // namespace dp::server
