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

std::string ReadFrom(const FileDescriptor& file, uint64_t offset, uint64_t size) {
  std::string data(size, '\0');
  const ssize_t got = pread(file.get(), data.data(), data.size(), static_cast<off_t>(offset));
  data.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return data;
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

int SpoolFile::PunchHole(const FileDescriptor& file, uint64_t end) {
  constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  return fallocate(file.get(), kHole, 0, static_cast<off_t>(end)) == 0 ? 0 : errno;
}

SpoolFile::SpoolFile(const std::string& path, bool left_over, MakeHole make_hole)
    : path_(path), left_over_(left_over), make_hole_(std::move(make_hole)), ended_(left_over) {
  (void)Open();  // trouble() says why not
  MutexLock lock(mu_);
  CloseIfEnded();
}

SpoolFile::Descriptor SpoolFile::Open() {
  {
    MutexLock lock(mu_);
    if (file_ != nullptr || absent_) return file_;
  }
  Opened opened = OpenAnew();
  MutexLock lock(mu_);
  return Take(std::move(opened));
}

SpoolFile::Opened SpoolFile::OpenAnew() const {
  FileDescriptor file(open(path_.c_str(), O_RDWR | O_CLOEXEC));
  Opened opened;
  if (!file.valid() || fstat(file.get(), &opened.info) != 0) {
    opened.error = errno;
    return opened;
  }
  if (left_over_) opened.first_data = FirstData(file, static_cast<uint64_t>(opened.info.st_size));
  opened.file = std::make_shared<const FileDescriptor>(std::move(file));
  return opened;
}

SpoolFile::Descriptor SpoolFile::Take(Opened opened) {
  if (file_ != nullptr || absent_) return file_;  // another thread was faster
  const bool mine = opened.file != nullptr && (!inode_ || *inode_ == opened.info.st_ino);
  absent_ = opened.file != nullptr ? !mine : opened.error == ENOENT;
  trouble_ =
      opened.file != nullptr || absent_ ? absl::OkStatus() : SpoolFailed(path_, opened.error);
  if (absent_) use_ = {};
  if (!mine) return nullptr;
  file_ = opened.file;
  if (!inode_) Measure(opened);
  return file_;
}

void SpoolFile::Measure(const Opened& opened) {
  inode_ = opened.info.st_ino;
  if (opened.info.st_size == 0) return;
  use_.size = static_cast<uint64_t>(opened.info.st_size);
  use_.begin = opened.first_data;
  found_.Add(0, absl::TimeFromTimespec(opened.info.st_mtim));
}

void SpoolFile::CloseIfEnded() {
  if (ended_) file_.reset();
}

bool SpoolFile::ended_and_measured() const {
  MutexLock lock(mu_);
  return ended_ && inode_;
}

void SpoolFile::Look(absl::Time now) {
  if (ended_and_measured()) return;
  const Descriptor file = Open();
  if (file == nullptr) return;
  struct stat info {};
  const bool known = fstat(file->get(), &info) == 0;
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  MutexLock lock(mu_);
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
  const SpoolUse use = this->use();
  if (use.acknowledged >= use.size) return {};
  const Descriptor file = Open();
  if (file == nullptr) return {};
  const bool cut = use.acknowledged < use.begin;
  const uint64_t from = std::max(use.acknowledged, use.begin);
  const size_t wanted = cut ? kWholeLineBytesMax : bytes_max;
  std::string data = ReadFrom(*file, from, std::min<uint64_t>(use.size - from, wanted));
  MutexLock lock(mu_);
  CloseIfEnded();
  if (!Untouched(use.begin, from)) return {};
  return cut ? CutFrom(use.acknowledged, data) : LinesFrom(from, std::move(data), ended);
}

bool SpoolFile::Untouched(uint64_t begin, uint64_t offset) const {
  return use_.begin == begin && hole_end_ <= offset;
}

SpoolFile::Piece SpoolFile::LinesFrom(uint64_t offset, std::string data, bool ended) const {
  Piece piece{.offset = offset, .data = std::move(data)};
  const bool to_the_end = ended && offset + piece.data.size() == use_.size;
  piece.data.resize(ShippableBytes(piece.data, to_the_end));
  piece.times = found_.Of(offset, offset + piece.data.size());
  return piece;
}

// Up to the next whole line, where that is near.
SpoolFile::Piece SpoolFile::CutFrom(uint64_t offset, const std::string& kept) const {
  const size_t newline = kept.find('\n');
  const uint64_t line = use_.begin + (newline == kept.npos ? 0 : newline + 1);
  return {.offset = offset, .cut_bytes = line - offset, .times = found_.Of(offset, line)};
}

absl::Status SpoolFile::GiveUpBefore(uint64_t begin) {
  begin -= begin % kHoleUnit;
  if (begin <= use().begin) return trouble();
  const Descriptor file = Open();
  if (file == nullptr) return trouble();
  {
    MutexLock lock(mu_);
    hole_end_ = begin;
  }
  const int error = make_hole_(*file, begin);
  MutexLock lock(mu_);
  hole_end_ = 0;
  CloseIfEnded();
  if (error != 0) return NoHole(path_, error);
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

}  // namespace dp::worker
