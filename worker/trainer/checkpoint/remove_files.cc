#include "worker/trainer/checkpoint/remove_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file_descriptor.h"
#include "base/status.h"
#include "base/utf8.h"
#include "google/protobuf/util/json_util.h"
#include "proto/convert/time.h"
#include "worker/trainer/checkpoint/checkpoint_files.h"
#include "worker/trainer/checkpoint/durable_file.h"
#include "worker/trainer/checkpoint/own_files.h"
#include "worker/trainer/checkpoint/sha256.h"

namespace dp::trainer {
namespace {

// How many files that stay are named in one directory. The others are counted: somebody may have
// put millions there.
constexpr int kLeftNamedMax = 100;

std::error_code SystemError() { return {errno, std::generic_category()}; }

std::string Utf8Path(const std::string& path) {
  return IsUtf8(path) ? path : absl::CHexEscape(path);
}

FoundFile::Kind KindOf(const struct stat& info) {
  if (S_ISREG(info.st_mode)) return FoundFile::Kind::kRegular;
  if (S_ISDIR(info.st_mode)) return FoundFile::Kind::kDirectory;
  return S_ISLNK(info.st_mode) ? FoundFile::Kind::kSymbolicLink : FoundFile::Kind::kOther;
}

// An open directory. All files in it are reached by its descriptor, so nobody can put another
// directory in its place meanwhile.
class Directory {
 public:
  Directory(FileDescriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  // Errors: NotFound; others are the system's.
  static absl::StatusOr<Directory> Open(const std::string& path) {
    FileDescriptor fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid()) return FileError(SystemError(), "open", path);
    return Directory(std::move(fd), path);
  }
  // Does not follow a symbolic link. Errors: as Open.
  absl::StatusOr<Directory> OpenIn(const std::string& name) const {
    constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    FileDescriptor fd(openat(fd_.get(), name.c_str(), kFlags));
    if (!fd.valid()) return FileError(SystemError(), "open", At(name));
    return Directory(std::move(fd), At(name));
  }

  // The names in it, in order.
  absl::StatusOr<std::vector<std::string>> List() const {
    FileDescriptor copy(openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(
        copy.valid() ? fdopendir(copy.get()) : nullptr, closedir);
    if (entries == nullptr) return FileError(SystemError(), "list", path_);
    (void)copy.Release();
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = readdir(entries.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    if (errno != 0) return FileError(SystemError(), "list", path_);
    std::sort(names.begin(), names.end());
    return names;
  }

  // Errors: NotFound; others are the system's.
  absl::StatusOr<struct stat> Look(const std::string& name) const {
    struct stat info {};
    if (fstatat(fd_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) return info;
    return FileError(SystemError(), "look at", At(name));
  }
  // Opens a regular file for reading. Does not wait for the writer of a pipe.
  absl::StatusOr<FileDescriptor> OpenFile(const std::string& name) const {
    constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    FileDescriptor fd(openat(fd_.get(), name.c_str(), kFlags));
    if (!fd.valid()) return FileError(SystemError(), "open", At(name));
    return fd;
  }
  // `how`: 0, or AT_REMOVEDIR. Errors: FailedPrecondition a directory is not empty; NotFound;
  // others are the system's.
  absl::Status Remove(const std::string& name, int how) const {
    if (unlinkat(fd_.get(), name.c_str(), how) == 0) return absl::OkStatus();
    const absl::Status error = FileError(SystemError(), "remove", At(name));
    // A mount point is the job's, too, though it cannot be removed.
    return errno == EBUSY ? absl::UnavailableError(error.message()) : error;
  }

  std::string At(const std::string& name) const { return absl::StrCat(path_, "/", name); }
  const std::string& path() const { return path_; }

 private:
  FileDescriptor fd_;
  std::string path_;
};

class FileRemover {
 public:
  FileRemover(const v1::FileRemoval& removal,
              const std::function<void(const v1::FileOutcome&)>& tell)
      : removal_(removal),
        tell_(tell),
        job_(removal.job()),
        label_(JobLabel(job_, FromProto(removal.submitted_at()))) {}

  bool Run() {
    if (!removal_.checkpoint_dir().empty()) RemoveCheckpoints();
    if (!removal_.weights_path().empty()) RemoveWeights();
    return failures_ == 0;
  }

 private:
  // The files of one directory that stay, and those that were removed.
  struct Tally {
    int left = 0;
    bool failed = false;  // a file that stays is the job's
    int64_t bytes = 0;
    std::vector<std::pair<std::string, int64_t>> removed;  // path and bytes
  };

  void RemoveCheckpoints() {
    const absl::StatusOr<Directory> parent = Directory::Open(removal_.checkpoint_dir());
    if (!parent.ok()) return TellFault(removal_.checkpoint_dir(), parent.status());
    const absl::StatusOr<Directory> directory = OpenOwn(*parent, label_);
    if (!directory.ok()) return TellFault(parent->At(label_), directory.status());
    const auto names = directory->List();
    if (!names.ok()) return TellFault(directory->path(), names.status());
    Tally tally;
    for (const std::string& name : *names) RemoveInJobDirectory(*directory, name, tally);
    TellUnnamed(directory->path(), tally);
    if (tally.left > 0) return;
    const absl::Status removed = RemoveIn(*parent, label_, AT_REMOVEDIR);
    removed.ok() ? Tell(v1::FileOutcome::KIND_REMOVED, directory->path())
                 : TellFault(directory->path(), removed);
  }

  // A saver leaves its probe behind if it is killed while it tries the directory.
  static bool IsProbe(const std::string& name) {
    return name == absl::StrCat(kProbeName, kProbeSuffix);
  }

  void RemoveInJobDirectory(const Directory& directory, const std::string& name, Tally& tally) {
    if (const auto checkpoint = CheckpointName::Parse(name)) {
      return RemoveCheckpoint(directory, *checkpoint, tally);
    }
    const absl::StatusOr<int64_t> removed = RemoveFile(directory, name, [&](const FoundFile& file) {
      if (!IsProbe(name) || file.bytes > 0) return NotByDp();
      return CheckKind(file, FoundFile::Kind::kRegular);
    });
    if (removed.ok()) return Tell(v1::FileOutcome::KIND_REMOVED, directory.At(name));
    Stay(directory.At(name), removed.status(), tally);
  }

  void RemoveCheckpoint(const Directory& parent, const CheckpointName& checkpoint, Tally& tally) {
    const std::string name = checkpoint.ToString();
    const absl::StatusOr<Directory> directory = OpenOwn(parent, name);
    if (!directory.ok()) return Stay(parent.At(name), directory.status(), tally);
    absl::StatusOr<std::vector<std::string>> names = directory->List();
    if (!names.ok()) return Stay(directory->path(), names.status(), tally);
    std::optional<v1::CheckpointManifest> manifest;
    if (!checkpoint.partial && !names->empty()) {
      absl::StatusOr<v1::CheckpointManifest> read = ManifestIn(*directory, checkpoint);
      if (!read.ok()) return Stay(directory->path(), read.status(), tally);
      manifest = *std::move(read);
      // The proof goes last, so that a repetition finds it.
      std::stable_partition(names->begin(), names->end(),
                            [](const std::string& each) { return each != kManifestFile; });
    }
    Tally own;
    for (const std::string& each : *names) {
      if (each == kManifestFile && own.failed) break;
      RemoveInCheckpoint(*directory, each, manifest, own);
    }
    TellUnnamed(directory->path(), own);
    if (own.left == 0) {
      const absl::Status removed = RemoveIn(parent, name, AT_REMOVEDIR);
      if (removed.ok()) return Tell(v1::FileOutcome::KIND_REMOVED, directory->path(), own.bytes);
      TellFault(directory->path(), removed);
    }
    for (const auto& [path, bytes] : own.removed) Tell(v1::FileOutcome::KIND_REMOVED, path, bytes);
    ++tally.left;
  }

  void RemoveInCheckpoint(const Directory& directory, const std::string& name,
                          const std::optional<v1::CheckpointManifest>& manifest, Tally& tally) {
    const auto check = [&](const FoundFile& file) {
      if (!manifest) return CheckInPartial(name, file);
      if (name == kManifestFile) return CheckKind(file, FoundFile::Kind::kRegular);
      return CheckInCheckpoint(*manifest, name, file);
    };
    const absl::StatusOr<int64_t> bytes = RemoveFile(directory, name, check);
    if (!bytes.ok()) return Stay(directory.At(name), bytes.status(), tally);
    tally.bytes += *bytes;
    tally.removed.emplace_back(directory.At(name), *bytes);
  }

  absl::StatusOr<v1::CheckpointManifest> ManifestIn(const Directory& directory,
                                                    const CheckpointName& checkpoint) const {
    const std::string path = directory.At(kManifestFile);
    const absl::StatusOr<FileDescriptor> file = directory.OpenFile(kManifestFile);
    if (absl::IsNotFound(file.status())) {
      return absl::FailedPreconditionError(
          absl::StrCat("it has no ", kManifestFile, " that names its job"));
    }
    DP_RETURN_IF_ERROR(file.status());
    DP_ASSIGN_OR_RETURN(const std::string json, ReadOpenFile(file->get(), path, kManifestBytesMax));
    const absl::StatusOr<v1::CheckpointManifest> manifest = ParseManifest(path, json);
    if (!manifest.ok()) return absl::FailedPreconditionError(manifest.status().message());
    DP_RETURN_IF_ERROR(CheckManifest(job_, checkpoint, *manifest));
    return *manifest;
  }

  void RemoveWeights() {
    const std::filesystem::path place = removal_.weights_path();
    const std::string base = place.filename().string();
    const absl::StatusOr<Directory> parent = Directory::Open(place.parent_path().string());
    if (!parent.ok()) return TellFault(removal_.weights_path(), parent.status());
    const auto names = parent->List();
    if (!names.ok()) return TellFault(parent->path(), names.status());
    Tally tally;
    for (const std::string& name : *names) {
      absl::string_view suffix = name;
      if (!absl::ConsumePrefix(&suffix, base)) continue;
      const auto beside = WeightsBeside::Parse(suffix, label_);
      if (suffix.empty() || beside) {
        RemoveWeightsFile(*parent, name, beside, tally);
      } else if (IsNamelessWeightsSuffix(suffix)) {
        Stay(parent->At(name),
             absl::FailedPreconditionError("an earlier release left it, and it names no job"),
             tally);
      }
    }
    TellUnnamed(parent->path(), tally);
  }

  void RemoveWeightsFile(const Directory& parent, const std::string& name,
                         const std::optional<WeightsBeside>& beside, Tally& tally) {
    const bool unplaced = beside && beside->phase == WeightsBeside::Phase::kBefore;
    const absl::StatusOr<int64_t> bytes = RemoveFile(parent, name, [&](const FoundFile& file) {
      return unplaced ? CheckKind(file, FoundFile::Kind::kRegular) : CheckWeights(removal_, file);
    });
    if (!bytes.ok()) return Stay(parent.At(name), bytes.status(), tally);
    Tell(v1::FileOutcome::KIND_REMOVED, parent.At(name), *bytes);
  }

  // Removes a file if `check` finds that it is the job's; returns its size.
  // Errors: those of `check`; FailedPrecondition it was replaced meanwhile; others are the
  // system's.
  template <typename Check>
  absl::StatusOr<int64_t> RemoveFile(const Directory& directory, const std::string& name,
                                     Check check) const {
    DP_ASSIGN_OR_RETURN(const struct stat found, directory.Look(name));
    const auto hash = [&]() -> absl::StatusOr<std::string> {
      DP_ASSIGN_OR_RETURN(const FileDescriptor fd, directory.OpenFile(name));
      struct stat opened {};
      const bool same = fstat(fd.get(), &opened) == 0 && Same(found, opened);
      if (!same) return Replaced();
      return Sha256HexOfFile(fd.get(), directory.At(name));
    };
    DP_RETURN_IF_ERROR(check(FoundFile{.kind = KindOf(found),
                                       .bytes = found.st_size,
                                       .modified_at = absl::TimeFromTimespec(found.st_mtim),
                                       .sha256 = hash}));
    DP_ASSIGN_OR_RETURN(const struct stat now, directory.Look(name));
    if (!Same(found, now)) return Replaced();
    DP_RETURN_IF_ERROR(RemoveIn(directory, name, 0));
    return found.st_size;
  }

  // Whether both are the same file with the same contents.
  static bool Same(const struct stat& one, const struct stat& other) {
    return one.st_dev == other.st_dev && one.st_ino == other.st_ino &&
           one.st_size == other.st_size && one.st_mtim.tv_sec == other.st_mtim.tv_sec &&
           one.st_mtim.tv_nsec == other.st_mtim.tv_nsec;
  }
  static absl::Status Replaced() {
    return absl::FailedPreconditionError("it was replaced or changed while dp looked at it");
  }
  static absl::Status NotByDp() { return absl::FailedPreconditionError("dp did not write it"); }

  // A directory that dp made. Errors: FailedPrecondition it is none; others as Directory::OpenIn.
  static absl::StatusOr<Directory> OpenOwn(const Directory& parent, const std::string& name) {
    DP_ASSIGN_OR_RETURN(const struct stat info, parent.Look(name));
    DP_RETURN_IF_ERROR(CheckKind({.kind = KindOf(info)}, FoundFile::Kind::kDirectory));
    return parent.OpenIn(name);
  }

  absl::Status RemoveIn(const Directory& directory, const std::string& name, int how) const {
    return removal_.dry_run() ? absl::OkStatus() : directory.Remove(name, how);
  }

  // A file that stays, and why.
  void Stay(const std::string& path, const absl::Status& why, Tally& tally) {
    if (absl::IsNotFound(why)) return;  // somebody else removed it meanwhile
    const bool failed = !absl::IsFailedPrecondition(why);
    if (failed || tally.left < kLeftNamedMax) TellFault(path, why);
    tally.failed |= failed;
    ++tally.left;
  }
  void TellUnnamed(const std::string& path, const Tally& tally) {
    const int unnamed = tally.left - kLeftNamedMax;
    if (unnamed <= 0) return;
    TellFault(path, absl::FailedPreconditionError(
                        absl::StrCat("about ", unnamed, " more files in it stay")));
  }

  // Absence is success.
  void TellFault(const std::string& path, const absl::Status& fault) {
    if (absl::IsNotFound(fault)) return;
    const bool left = absl::IsFailedPrecondition(fault);
    if (!left) ++failures_;
    Tell(left ? v1::FileOutcome::KIND_LEFT : v1::FileOutcome::KIND_FAILED, path, 0,
         std::string(fault.message()));
  }
  void Tell(v1::FileOutcome::Kind kind, const std::string& path, int64_t bytes = 0,
            const std::string& reason = "") const {
    v1::FileOutcome outcome;
    outcome.set_kind(kind);
    outcome.set_path(Utf8Path(path));
    outcome.set_bytes(bytes);
    outcome.set_reason(Utf8Path(reason));
    tell_(outcome);
  }

  const v1::FileRemoval& removal_;
  const std::function<void(const v1::FileOutcome&)>& tell_;
  const JobId job_;
  const std::string label_;
  int failures_ = 0;
};

constexpr int kFileOfTheJobLeft = 1;
constexpr int kNoRemoval = 2;

}  // namespace

bool RemoveFiles(const v1::FileRemoval& removal,
                 const std::function<void(const v1::FileOutcome&)>& tell) {
  return FileRemover(removal, tell).Run();
}

int RunRemoveFiles(const char* program, const char* json) {
  v1::FileRemoval removal;
  const auto parsed = google::protobuf::util::JsonStringToMessage(json, &removal);
  if (!parsed.ok() || removal.job() == 0 || !removal.has_submitted_at()) {
    std::fprintf(stderr,
                 "%s: remove-files: the argument names no job in JSON; use 'dpctl rm "
                 "--with-files JOB'\n",
                 program);
    return kNoRemoval;
  }
  const bool done = RemoveFiles(removal, [](const v1::FileOutcome& outcome) {
    std::string line;
    if (!google::protobuf::util::MessageToJsonString(outcome, &line).ok()) return;
    std::printf("%s\n", line.c_str());
  });
  return done ? 0 : kFileOfTheJobLeft;
}

}  // namespace dp::trainer
