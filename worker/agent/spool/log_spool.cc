#include "worker/agent/spool/log_spool.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file_descriptor.h"
#include "base/program/log.h"
#include "base/replace_file.h"
#include "base/status.h"
#include "worker/agent/accounts/passable_dir.h"
#include "worker/agent/processes/exit_record.h"
#include "worker/agent/spool/output_lines.h"
#include "worker/agent/spool/spool_file.h"

namespace dp::worker {
namespace {

namespace fs = std::filesystem;

// How much of a file is read for last lines: enough for all of them at their greatest length.
constexpr off_t kTailBytes = kLastLinesMax * kLastLineBytesMax;

// Room for the files and directories of one rank.
constexpr size_t kProbeBytes = 32 << 10;

const char* Suffix(v1::LogStream stream) {
  switch (stream) {
    case v1::LOG_STREAM_STDOUT:
      return ".out";
    case v1::LOG_STREAM_STDERR:
      return ".err";
    case v1::LOG_STREAM_METRICS:
      return ".metrics";
    default:
      DP_CHECK(false);
      return "";
  }
}

// The end of a file without secrets; empty if the file cannot be read.
std::string Tail(const std::string& path, const SecretMask& mask) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!file.valid() || fstat(file.get(), &info) != 0) return "";
  const off_t size = std::min<off_t>(info.st_size, kTailBytes);
  std::string tail(static_cast<size_t>(size), '\0');
  const ssize_t got = pread(file.get(), tail.data(), tail.size(), info.st_size - size);
  tail.resize(got < 0 ? 0 : static_cast<size_t>(got));
  // Zeros in front are a hole, left by a rank that wrote behind it.
  const size_t hole = std::min(tail.size(), tail.find_first_not_of('\0'));
  tail.erase(0, hole);
  mask.Hide(&tail, {.before = hole > 0 || size < info.st_size, .after = true});
  return tail;
}

absl::Status SpoolError(const std::string& path) {
  return absl::InternalError(absl::StrCat("spool ", path, ": ", std::strerror(errno)));
}

// A path to the open directory, whatever lies on the way to it by now.
std::string PathOf(const FileDescriptor& dir) { return absl::StrCat("/proc/self/fd/", dir.get()); }

std::string NameIn(const FileDescriptor& dir, const std::string& path) {
  return absl::StrCat(PathOf(dir), "/", fs::path(path).filename().string());
}

absl::Status LetOthersPass(const FileDescriptor& dir) {
  std::error_code error;
  const fs::path path = fs::read_symlink(PathOf(dir), error);  // empty on an error
  errno = MakePassable(PathOf(dir));
  return errno == 0 ? absl::OkStatus() : SpoolError(path);
}

// The directories of a generation, each opened in the one above. Links are not followed: one that
// somebody planted could lead anywhere.
struct SpoolDirs {
  FileDescriptor spool, job, generation;

  // Makes what is missing if `make`. Errors: Internal names the directory and the reason.
  static absl::StatusOr<SpoolDirs> Open(const fs::path& generation_dir, bool make) {
    const fs::path job_dir = generation_dir.parent_path(), spool_dir = job_dir.parent_path();
    const FileDescriptor state(
        open(spool_dir.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!state.valid()) return SpoolError(spool_dir.parent_path());
    SpoolDirs dirs;
    DP_ASSIGN_OR_RETURN(dirs.spool, In(state, spool_dir, make));
    DP_ASSIGN_OR_RETURN(dirs.job, In(dirs.spool, job_dir, make));
    DP_ASSIGN_OR_RETURN(dirs.generation, In(dirs.job, generation_dir, make));
    return dirs;
  }

  static absl::StatusOr<FileDescriptor> In(const FileDescriptor& above, const fs::path& path,
                                           bool make) {
    const fs::path name = path.filename();
    if (make && mkdirat(above.get(), name.c_str(), 0777) != 0 && errno != EEXIST) {
      return SpoolError(path);
    }
    FileDescriptor dir(
        openat(above.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!dir.valid()) return SpoolError(path);
    return dir;
  }
};

// The daemon has just made the file, in a directory of its own. A link in its place would have
// another owner, or be one of several.
absl::Status GiveFile(const FileDescriptor& dir, const std::string& path, const Account& account) {
  const FileDescriptor file(open(NameIn(dir, path).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!file.valid() || fstat(file.get(), &info) != 0) return SpoolError(path);
  if (!S_ISREG(info.st_mode) || info.st_uid != geteuid() || info.st_nlink != 1) {
    return absl::InternalError(absl::StrCat("spool ", path, ": is not the file that was made"));
  }
  if (fchown(file.get(), account.uid, account.gid) != 0) return SpoolError(path);
  return absl::OkStatus();
}

// Makes a new file. There may be one of the same name, of a coordinator that was set up anew;
// whoever reads that one keeps it.
absl::Status MakeFile(const FileDescriptor& dir, const std::string& path, const std::string& text) {
  const std::string name = NameIn(dir, path);
  unlink(name.c_str());
  const FileDescriptor file(open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.valid() && write(file.get(), text.data(), text.size()) == std::ssize(text)) {
    return absl::OkStatus();
  }
  return SpoolError(path);
}

}  // namespace

LogSpool::LogSpool(const std::string& state_dir, const RankKey& key)
    : generation_dir_(
          absl::StrCat(state_dir, "/spool/", key.job.value(), "/", key.generation.value())),
      stem_(absl::StrCat(generation_dir_, "/", key.rank)) {}

std::vector<RankKey> LogSpool::Find(const std::string& state_dir) {
  std::vector<RankKey> keys;
  std::error_code error;
  for (fs::recursive_directory_iterator at(state_dir + "/spool", error), last; !error && at != last;
       at.increment(error)) {
    const fs::path& path = at->path();
    uint64_t job = 0, generation = 0;
    int rank = 0;
    if (path.extension() == kOwnerSuffix && absl::SimpleAtoi(path.stem().string(), &rank) &&
        absl::SimpleAtoi(path.parent_path().filename().string(), &generation) &&
        absl::SimpleAtoi(path.parent_path().parent_path().filename().string(), &job)) {
      keys.push_back({JobId(job), Generation(generation), rank});
    }
  }
  return keys;
}

absl::Status LogSpool::Create(const SpoolOwner& owner) const {
  DP_ASSIGN_OR_RETURN(const SpoolDirs dirs, SpoolDirs::Open(generation_dir_, /*make=*/true));
  const FileDescriptor& dir = dirs.generation;
  for (const v1::LogStream stream : kLogStreams) {
    RemoveReplacedFile(NameIn(dir, shift_file(stream)));
    DP_RETURN_IF_ERROR(MakeFile(dir, path(stream), ""));
  }
  RemoveExitRecord(NameIn(dir, exit_file()));
  RemoveReplacedFile(NameIn(dir, secrets_file()));
  return MakeFile(dir, job_file(),
                  absl::StrCat(absl::ToUnixNanos(owner.job_submitted_at), " ",
                               owner.session.worker_id, " ", owner.session.incarnation.value()));
}

absl::Status LogSpool::GiveTo(const Account& account) const {
  DP_ASSIGN_OR_RETURN(const SpoolDirs dirs, SpoolDirs::Open(generation_dir_, /*make=*/false));
  for (const FileDescriptor* dir : {&dirs.spool, &dirs.job, &dirs.generation}) {
    DP_RETURN_IF_ERROR(LetOthersPass(*dir));
  }
  // The program makes no files here, so this one is there from the beginning.
  DP_RETURN_IF_ERROR(MakeFile(dirs.generation, error_file(), ""));
  DP_RETURN_IF_ERROR(GiveFile(dirs.generation, error_file(), account));
  for (const v1::LogStream stream : kLogStreams) {
    DP_RETURN_IF_ERROR(GiveFile(dirs.generation, path(stream), account));
  }
  struct stat info {};
  if (lstat(NameIn(dirs.generation, credential_dir()).c_str(), &info) != 0) return absl::OkStatus();
  DP_ASSIGN_OR_RETURN(const FileDescriptor credential,
                      SpoolDirs::In(dirs.generation, credential_dir(), /*make=*/false));
  DP_RETURN_IF_ERROR(LetOthersPass(credential));
  std::error_code error;
  for (fs::directory_iterator at(PathOf(credential), error), last; !error && at != last;
       at.increment(error)) {
    DP_RETURN_IF_ERROR(GiveFile(credential, at->path(), account));
  }
  if (!error) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("spool ", credential_dir(), ": ", error.message()));
}

absl::Status LogSpool::KeepSecrets(const std::vector<std::string>& values) const {
  if (values.empty()) return absl::OkStatus();
  DP_ASSIGN_OR_RETURN(const SpoolDirs dirs, SpoolDirs::Open(generation_dir_, /*make=*/false));
  if (ReplaceFile(NameIn(dirs.generation, secrets_file()), SecretsText(values))) {
    return absl::OkStatus();
  }
  return SpoolError(secrets_file());
}

SecretMask LogSpool::Mask() const {
  std::error_code error;
  if (!fs::exists(secrets_file(), error) && !error) return SecretMask();
  std::ifstream file(secrets_file(), std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto values = file.bad() ? std::nullopt : SecretsInText(text);
  if (values) return SecretMask(*values);
  Log(Severity::kWarning, "secrets_lost", {{"file", secrets_file()}});
  return SecretMask::OfEverything();
}

absl::Status LogSpool::Append(v1::LogStream stream, const std::string& lines) const {
  const FileDescriptor file(
      open(path(stream).c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  const ssize_t written = file.valid() ? write(file.get(), lines.data(), lines.size()) : -1;
  if (written == std::ssize(lines)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("spool ", path(stream), ": ",
                                          written < 0 ? std::strerror(errno) : "the disk is full"));
}

std::optional<SpoolOwner> LogSpool::owner() const {
  std::ifstream file(job_file());
  int64_t nanoseconds = 0;
  if (!(file >> nanoseconds)) return std::nullopt;
  SpoolOwner owner{.job_submitted_at = absl::FromUnixNanos(nanoseconds)};
  uint64_t incarnation = 0;
  if (file >> owner.session.worker_id >> incarnation) {
    owner.session.incarnation = Incarnation(incarnation);
  }
  return owner;
}

std::optional<absl::Time> LogSpool::job_submitted_at() const {
  const std::optional<SpoolOwner> known = owner();
  return known ? std::optional(known->job_submitted_at) : std::nullopt;
}

void LogSpool::Remove() const {
  const auto dirs = SpoolDirs::Open(generation_dir_, /*make=*/false);
  if (!dirs.ok()) return;
  const FileDescriptor& dir = dirs->generation;
  for (const v1::LogStream stream : kLogStreams) {
    unlink(NameIn(dir, path(stream)).c_str());
    RemoveReplacedFile(NameIn(dir, shift_file(stream)));
  }
  unlink(NameIn(dir, error_file()).c_str());
  std::error_code error;
  fs::remove_all(NameIn(dir, credential_dir()), error);  // follows no link in it
  RemoveExitRecord(NameIn(dir, exit_file()));
  RemoveReplacedFile(NameIn(dir, secrets_file()));
  unlink(NameIn(dir, job_file()).c_str());
  // Both fail while another rank's files are there.
  if (rmdir(NameIn(dirs->job, generation_dir_).c_str()) == 0) {
    rmdir(NameIn(dirs->spool, fs::path(generation_dir_).parent_path()).c_str());
  }
}

std::string LogSpool::path(v1::LogStream stream) const {
  return absl::StrCat(stem_, Suffix(stream));
}

std::string LogSpool::shift_file(v1::LogStream stream) const {
  return path(stream) + SpoolFile::kShiftSuffix;
}

std::string LogSpool::place() const {
  std::error_code error;
  const fs::path absolute = fs::absolute(stem_, error);
  return error ? stem_ : absolute.lexically_normal().string();
}

std::string LogSpool::job_file() const { return absl::StrCat(stem_, kOwnerSuffix); }

std::string LogSpool::secrets_file() const { return absl::StrCat(stem_, ".secrets"); }

std::string LogSpool::error_file() const { return absl::StrCat(stem_, ".error"); }

std::string LogSpool::credential_dir() const { return absl::StrCat(stem_, ".credential"); }

std::string LogSpool::exit_file() const { return absl::StrCat(stem_, ".exit"); }

std::vector<std::string> LogSpool::LastLines() const {
  const SecretMask mask = Mask();
  const std::string error = Tail(path(v1::LOG_STREAM_STDERR), mask);
  const std::string output = Tail(path(v1::LOG_STREAM_STDOUT), mask);
  const auto error_lines = LastLinesOf(error, kLastLinesMax);
  std::vector<std::string> lines;
  for (const auto& line : LastLinesOf(output, kLastLinesMax - error_lines.size())) {
    lines.push_back(Printable(line, kLastLineBytesMax));
  }
  for (const auto& line : error_lines) lines.push_back(Printable(line, kLastLineBytesMax));
  return lines;
}

absl::Status CheckSpoolRoom(const std::string& state_dir) {
  const std::string path = state_dir + "/spool";
  const FileDescriptor state(open(state_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!state.valid()) return SpoolError(state_dir);
  DP_ASSIGN_OR_RETURN(const FileDescriptor spool, SpoolDirs::In(state, path, /*make=*/true));
  const std::string probe = path + "/probe";
  const absl::Status made = MakeFile(spool, probe, std::string(kProbeBytes, 'x'));
  unlink(NameIn(spool, probe).c_str());
  return made;
}

DiskSpace DiskOf(const std::string& state_dir) {
  std::error_code error;
  const fs::space_info space = fs::space(state_dir, error);
  return error ? DiskSpace() : DiskSpace{space.capacity, space.available};
}

}  // namespace dp::worker
