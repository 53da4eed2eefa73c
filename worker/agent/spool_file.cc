#include "worker/agent/spool_file.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "worker/agent/text.h"

namespace dp::worker {
namespace {

// Holes are whole blocks; no usual file system has larger ones.
constexpr uint64_t kHoleUnit = 64 << 10;

// Where the first byte lies that was not given up.
uint64_t FirstData(const FileDescriptor& file, uint64_t size) {
  const off_t first = lseek(file.get(), 0, SEEK_DATA);
  if (first >= 0) return static_cast<uint64_t>(first);
  return errno == ENXIO ? size : 0;
}

absl::Status SpoolFailed(const std::string& path, int error) {
  return absl::InternalError(
      absl::StrCat("spool file ", path, ": ", std::generic_category().message(error)));
}

absl::Status NoHole(const std::string& path, int error) {
  const absl::Status failed = SpoolFailed(path, error);
  if (error != EOPNOTSUPP && error != ENOSYS) return failed;
  return absl::UnimplementedError(
      absl::StrCat(std::string(failed.message()),
                   "; only ext4, XFS, Btrfs and tmpfs let logs be bounded, choose one by "
                   "--state-dir"));
}

}  // namespace

SpoolFile::SpoolFile(const std::string& path, bool left_over) : path_(path), left_over_(left_over) {
  MutexLock lock(mu_);
  ended_ = left_over;
  if (Open()) CloseIfEnded();
}

bool SpoolFile::Open() {
  if (file_.valid() || absent_) return !absent_;
  FileDescriptor file(open(path_.c_str(), O_RDWR | O_CLOEXEC));
  struct stat info {};
  const bool opened = file.valid() && fstat(file.get(), &info) == 0;
  const bool mine = opened && (!inode_ || *inode_ == info.st_ino);
  absent_ = opened ? !mine : errno == ENOENT;
  trouble_ = opened || absent_ ? absl::OkStatus() : SpoolFailed(path_, errno);
  if (absent_) use_ = {};
  if (!mine) return false;
  file_ = std::move(file);
  if (!inode_) Measure(info);
  return true;
}

void SpoolFile::Measure(const struct stat& info) {
  inode_ = info.st_ino;
  if (info.st_size == 0) return;
  use_.size = static_cast<uint64_t>(info.st_size);
  if (left_over_) use_.begin = FirstData(file_, use_.size);
  found_.Add(0, absl::TimeFromTimespec(info.st_mtim));
}

void SpoolFile::CloseIfEnded() {
  if (ended_) file_.Close();
}

void SpoolFile::Look(absl::Time now) {
  MutexLock lock(mu_);
  if ((ended_ && inode_) || !Open()) return;
  struct stat info {};
  const bool known = fstat(file_.get(), &info) == 0;
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  if (known && size > use_.size) {
    found_.Add(use_.size, now);
    use_.size = size;
  }
  CloseIfEnded();
}

void SpoolFile::End(absl::Time now) {
  Look(now);
  MutexLock lock(mu_);
  ended_ = true;
  CloseIfEnded();
}

void SpoolFile::Acknowledge(uint64_t offset) {
  MutexLock lock(mu_);
  use_.acknowledged = offset;
  found_.ForgetBefore(offset);
}

SpoolFile::Piece SpoolFile::Next(size_t bytes_max, bool ended) {
  MutexLock lock(mu_);
  if (use_.acknowledged >= use_.size || !Open()) return {};
  Piece piece = use_.acknowledged < use_.begin ? CutFrom(use_.acknowledged)
                                               : LinesFrom(use_.acknowledged, bytes_max, ended);
  CloseIfEnded();
  return piece;
}

SpoolFile::Piece SpoolFile::LinesFrom(uint64_t offset, size_t bytes_max, bool ended) const {
  Piece piece{.offset = offset};
  piece.data = Read(offset, std::min<uint64_t>(use_.size - offset, bytes_max));
  const bool to_the_end = ended && offset + piece.data.size() == use_.size;
  piece.data.resize(ShippableBytes(piece.data, to_the_end));
  piece.times = found_.Of(offset, offset + piece.data.size());
  return piece;
}

// Up to the next whole line, where that is near.
SpoolFile::Piece SpoolFile::CutFrom(uint64_t offset) const {
  const std::string kept = Read(use_.begin, kWholeLineBytesMax);
  const size_t newline = kept.find('\n');
  const uint64_t line = use_.begin + (newline == kept.npos ? 0 : newline + 1);
  return {.offset = offset, .cut_bytes = line - offset, .times = found_.Of(offset, line)};
}

absl::Status SpoolFile::GiveUpBefore(uint64_t begin) {
  MutexLock lock(mu_);
  begin -= begin % kHoleUnit;
  if (begin <= use_.begin || !Open()) return trouble_;
  constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  const bool made = fallocate(file_.get(), kHole, 0, static_cast<off_t>(begin)) == 0;
  const int error = errno;
  CloseIfEnded();
  if (!made) return NoHole(path_, error);
  use_.begin = begin;
  return absl::OkStatus();
}

SpoolUse SpoolFile::use() const {
  MutexLock lock(mu_);
  return use_;
}

bool SpoolFile::sent() const {
  MutexLock lock(mu_);
  return (inode_ || absent_) && use_.size <= use_.acknowledged;
}

absl::Status SpoolFile::trouble() const {
  MutexLock lock(mu_);
  return trouble_;
}

std::string SpoolFile::Read(uint64_t offset, uint64_t size) const {
  std::string data(size, '\0');
  const ssize_t got = pread(file_.get(), data.data(), data.size(), static_cast<off_t>(offset));
  data.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return data;
}

}  // namespace dp::worker
