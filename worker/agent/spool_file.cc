#include "worker/agent/spool_file.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

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

}  // namespace

SpoolFile::SpoolFile(const std::string& path, bool left_over)
    : path_(path), file_(open(path.c_str(), O_RDWR | O_CLOEXEC)) {
  struct stat info {};
  if (!file_.valid() || fstat(file_.get(), &info) != 0 || info.st_size == 0) return;
  use_.size = static_cast<uint64_t>(info.st_size);
  if (left_over) use_.begin = FirstData(file_, use_.size);
  found_.Add(0, absl::TimeFromTimespec(info.st_mtim));
}

void SpoolFile::Look(absl::Time now) {
  MutexLock lock(mu_);
  struct stat info {};
  if (!file_.valid() || fstat(file_.get(), &info) != 0) return;
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  if (size <= use_.size) return;
  found_.Add(use_.size, now);
  use_.size = size;
}

void SpoolFile::Acknowledge(uint64_t offset) {
  MutexLock lock(mu_);
  use_.acknowledged = offset;
  found_.ForgetBefore(offset);
}

SpoolFile::Piece SpoolFile::Next(size_t bytes_max, bool ended) const {
  MutexLock lock(mu_);
  const auto& [begin, acknowledged, size] = use_;
  if (acknowledged >= size) return {};
  if (acknowledged < begin) return CutFrom(acknowledged);
  Piece piece{.offset = acknowledged};
  piece.data = Read(acknowledged, std::min<uint64_t>(size - acknowledged, bytes_max));
  const bool to_the_end = ended && acknowledged + piece.data.size() == size;
  piece.data.resize(ShippableBytes(piece.data, to_the_end));
  piece.times = found_.Of(acknowledged, acknowledged + piece.data.size());
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
  if (begin <= use_.begin) return absl::OkStatus();
  constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (fallocate(file_.get(), kHole, 0, static_cast<off_t>(begin)) == 0) {
    use_.begin = begin;
    return absl::OkStatus();
  }
  const int error = errno;
  const std::string message =
      absl::StrCat("spool file ", path_, ": ", std::generic_category().message(error));
  if (error != EOPNOTSUPP && error != ENOSYS) return absl::InternalError(message);
  return absl::UnimplementedError(absl::StrCat(
      message, "; only ext4, XFS, Btrfs and tmpfs let logs be bounded, choose one by --state-dir"));
}

SpoolUse SpoolFile::use() const {
  MutexLock lock(mu_);
  return use_;
}

bool SpoolFile::sent() const {
  MutexLock lock(mu_);
  return use_.size <= use_.acknowledged;
}

std::string SpoolFile::Read(uint64_t offset, uint64_t size) const {
  std::string data(size, '\0');
  const ssize_t got = pread(file_.get(), data.data(), data.size(), static_cast<off_t>(offset));
  data.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return data;
}

}  // namespace dp::worker
