#include "server/program/data_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/program/log.h"
#include "base/security/safe_path.h"
#include "base/status.h"

namespace dp::server {
namespace {

absl::Status NotWritable(const std::filesystem::path& path, const std::string& why) {
  return absl::PermissionDeniedError(absl::StrCat("data directory ", path.string(),
                                                  " cannot be used: ", why,
                                                  "; choose a writable one with --data-dir"));
}

// Names the holder of the lock by the number in the file. Only for people.
std::string Holder(int lock_fd) {
  char text[32] = {};
  const ssize_t size = pread(lock_fd, text, sizeof(text) - 1, 0);
  int pid = 0;
  return size > 0 && absl::SimpleAtoi(text, &pid) ? absl::StrCat("process ", pid)
                                                  : std::string("another coordinator");
}

// `name`; if `name` is taken, `name`-2, and so on.
std::filesystem::path FreeName(const std::filesystem::path& folder, const std::string& name) {
  std::filesystem::path free = folder / name;
  std::error_code error;
  for (int n = 2; std::filesystem::exists(free, error); ++n) {
    free = folder / absl::StrCat(name, "-", n);
  }
  return free;
}

absl::Status SyncFolder(const std::filesystem::path& path) {
  const FileDescriptor directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // A parent that this process may not read existed before.
  if (!directory.valid() && errno == EACCES) return absl::OkStatus();
  if (directory.valid() && fsync(directory.get()) == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("data directory ", path.string(), ": ",
                                          std::generic_category().message(errno),
                                          "; see to the disk, and start again"));
}

// Whoever can write the directory, or replace it, decides who is an administrator. The directory
// of the identity is checked by IdentityDir.
absl::Status CheckOtherUsers(const std::filesystem::path& path, bool accepted) {
  absl::Status status = security::CheckSafePath(path);
  for (const char* name : {"lock", "logs", "journal.sqlite", "journal.sqlite-wal",
                           "journal.sqlite-shm", "journal.sqlite-mark"}) {
    if (status.ok()) status = security::CheckSafePath(path / name);
    if (absl::IsNotFound(status)) status = absl::OkStatus();  // it is yet to be made
  }
  if (status.ok()) return absl::OkStatus();
  const std::string why(status.message());
  if (!accepted) {
    return absl::PermissionDeniedError(
        absl::StrCat("data directory ", path.string(), " is not used: ", why,
                     "; others could administer the cluster by it; choose a directory of your own "
                     "with --data-dir"));
  }
  Log(Severity::kWarning, "data_dir_open_to_others", {{"path", path.string()}, {"reason", why}});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DataDir> DataDir::Open(const std::filesystem::path& path, AcceptedRisks accepted) {
  DP_RETURN_IF_ERROR(CheckOtherUsers(path, accepted.other_users));
  std::error_code error;
  std::filesystem::create_directories(path / "logs", error);
  if (error) return NotWritable(path, error.message());
  // Somebody may have made it meanwhile.
  if (!accepted.other_users) DP_RETURN_IF_ERROR(CheckOtherUsers(path, /*accepted=*/false));
  const std::string lock = (path / "lock").string();
  FileDescriptor held(open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!held.valid()) return NotWritable(path, std::generic_category().message(errno));
  if (flock(held.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("data directory ", path.string(), " is in use by ", Holder(held.get()),
                     "; stop it or choose another directory with --data-dir"));
  }
  // Overwrites the content, so that a full disk has room for it. The lock works without the number
  // too.
  const std::string pid = absl::StrCat(getpid(), "\n");
  const bool named = pwrite(held.get(), pid.data(), pid.size(), 0) >= 0 &&
                     ftruncate(held.get(), static_cast<off_t>(pid.size())) == 0;
  if (!named && errno != ENOSPC) return NotWritable(path, std::generic_category().message(errno));
  DataDir dir(path, std::move(held));
  if (!accepted.data_loss) DP_RETURN_IF_ERROR(dir.CheckJournalIsThere());
  return dir;
}

// A new journal would overwrite the write-ahead log of the lost journal, and would not know the
// jobs whose logs are here. A first start never leaves these files without a journal: it makes them
// after the journal's first page is synced, with the journal's name.
absl::Status DataDir::CheckJournalIsThere() const {
  std::error_code error;
  const bool exists = std::filesystem::exists(path_ / kJournal, error);
  if (exists && !std::filesystem::is_regular_file(path_ / kJournal, error)) {
    return absl::FailedPreconditionError(
        absl::StrCat("data directory ", path_.string(), ": ", kJournal,
                     " is no file, as a journal is; move it away, or choose another directory with "
                     "--data-dir"));
  }
  if (!error && exists && std::filesystem::file_size(path_ / kJournal, error) > 0) {
    return absl::OkStatus();
  }
  if (error) return NotWritable(path_ / kJournal, error.message());
  std::vector<std::string> left;
  for (const char* suffix : {"-wal", "-mark"}) {
    const std::string file = absl::StrCat(kJournal, suffix);
    if (std::filesystem::exists(path_ / file, error)) left.push_back(file);
  }
  const auto logged = std::distance(std::filesystem::directory_iterator(logs(), error), {});
  if (logged > 0) left.push_back(absl::StrCat("logs of ", logged, logged == 1 ? " job" : " jobs"));
  if (error) return NotWritable(path_, error.message());
  if (left.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "data directory ", path_.string(), ": ", kJournal, exists ? " is empty" : " is missing",
      ", but ", absl::StrJoin(left, " and "), logged > 0 || left.size() > 1 ? " are" : " is",
      " there, and nothing was changed; restore the directory from a backup, start with an empty "
      "one by --data-dir, or with --accept-data-loss to go on without what was in it"));
}

absl::Status DataDir::SetLogsAside(const std::vector<JobId>& jobs) const {
  const std::filesystem::path aside = path_ / "lost-logs";
  std::error_code error;
  std::filesystem::create_directory(aside, error);
  for (const JobId job : jobs) {
    const std::filesystem::path from = logs() / job.ToString();
    const std::filesystem::path to = FreeName(aside, job.ToString());
    if (!error) std::filesystem::rename(from, to, error);
    if (error) {
      return absl::InternalError(absl::StrCat("logs of a lost job, ", from.string(),
                                              ", cannot be moved to ", to.string(), ": ",
                                              error.message(), "; move them away"));
    }
    Log(Severity::kWarning, "logs_set_aside", {{"job", job.value()}, {"folder", to.string()}});
  }
  // New jobs get these numbers: a crash must not bring the old logs back to them.
  for (const std::filesystem::path& path : {aside, logs(), path_}) {
    DP_RETURN_IF_ERROR(SyncFolder(path));
  }
  return absl::OkStatus();
}

uint64_t DataDir::disk_bytes() const {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(path_, error);
  return error ? std::numeric_limits<uint64_t>::max() : space.capacity;
}

uint64_t DataDir::disk_available() const {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(path_, error);
  return error ? std::numeric_limits<uint64_t>::max() : space.available;
}

absl::Status DataDir::Sync() const {
  DP_RETURN_IF_ERROR(SyncFolder(path_));
  return SyncFolder(path_ / "..");
}

}  // namespace dp::server
