#include "worker/agent/spool_file.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/log.h"
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

std::string TailOf(const FileDescriptor& file, uint64_t size) {
  const uint64_t tail = std::min(size, FileGlimpse::kTailBytesMax);
  return ReadFrom(file, size - tail, tail);
}

// 0 where the file was never emptied.
uint64_t ReadShift(const std::string& path) {
  uint64_t shift = 0;
  std::ifstream(path + SpoolFile::kShiftSuffix) >> shift;
  return shift;
}

// Replaces the record. Where that fails, the next life of the daemon sends what it finds at the
// file's own offsets.
void WriteShift(const std::string& path, uint64_t shift) {
  const std::string record = path + SpoolFile::kShiftSuffix;
  const std::string beside = record + ".new";
  std::ofstream(beside, std::ios::trunc) << shift;
  if (rename(beside.c_str(), record.c_str()) != 0) unlink(beside.c_str());
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
  const uint64_t size = static_cast<uint64_t>(opened.info.st_size);
  opened.tail = TailOf(file, size);
  if (left_over_) {
    opened.first_data = FirstData(file, size);
    opened.shift = ReadShift(path_);
  }
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
  const absl::Time modified = absl::TimeFromTimespec(opened.info.st_mtim);
  glimpse_ = {modified, static_cast<uint64_t>(opened.info.st_size), modified, opened.tail};
  shift_ = recorded_shift_ = anew_ = opened.shift;
  if (glimpse_.size + shift_ == 0) return;
  use_.size = glimpse_.size + shift_;
  use_.begin = opened.first_data + shift_;
  found_.Add(0, modified);
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
  while (!Notice(*file, now)) continue;
  RecordShift();
  MutexLock lock(mu_);
  CloseIfEnded();
}

bool SpoolFile::Notice(const FileDescriptor& file, absl::Time now) {
  const FileGlimpse before = glimpse();
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return true;
  const uint64_t size_now = static_cast<uint64_t>(info.st_size);
  const absl::Time modified = absl::TimeFromTimespec(info.st_mtim);
  if (size_now == before.size && modified == before.modified) return true;
  const std::string tail_now = ReadFrom(file, before.tail_begin(), before.tail.size());
  FileChange change = ChangeOf(before, {now, size_now, modified, TailOf(file, size_now)}, tail_now);
  const bool emptied = change.anew == 0;
  // A writer that goes on at its old offset in a file that another one has emptied leaves a hole.
  if (emptied) change.anew = FirstData(file, size_now);
  MutexLock lock(mu_);
  if (glimpse_ != before) return false;
  glimpse_ = std::move(change.glimpse);
  if (change.anew) GoOnFrom(*change.anew, emptied);
  const uint64_t size = glimpse_.size + shift_;
  if (size > use_.size) found_.Add(use_.size, now);
  use_.size = size;
  return true;
}

void SpoolFile::GoOnFrom(uint64_t anew, bool emptied) {
  const uint64_t first = emptied ? anew : use_.begin - shift_;  // in the file
  // Nobody knows how much the rank wrote since the latest look: one byte stands for it.
  anew_ = use_.size + 1;
  shift_ = anew_ - anew;
  use_.begin = first + shift_;
}

// Two threads may record at the same time: the one that wrote an older shift writes again.
void SpoolFile::RecordShift() {
  for (;;) {
    uint64_t shift = 0;
    {
      MutexLock lock(mu_);
      if (recorded_shift_ == shift_) return;
      shift = shift_;
    }
    WriteShift(path_, shift);
    Log(Severity::kWarning, "logs_emptied", {{"file", path_}});
    MutexLock lock(mu_);
    recorded_shift_ = shift;
  }
}

void SpoolFile::End(absl::Time now) {
  Look(now);
  Look(now + FileGlimpse::kSettlesIn);  // no write is under way
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
  SpoolUse use;
  uint64_t shift = 0;
  {
    MutexLock lock(mu_);
    if (use_.acknowledged >= use_.size || recorded_shift_ != shift_) return {};
    if (use_.acknowledged < anew_) return Emptied();
    use = use_;
    shift = shift_;
  }
  const Descriptor file = Open();
  if (file == nullptr) return {};
  const bool cut = use.acknowledged < use.begin;
  const uint64_t from = std::max(use.acknowledged, use.begin);
  const size_t wanted = cut ? kWholeLineBytesMax : bytes_max;
  std::string data = ReadFrom(*file, from - shift, std::min<uint64_t>(use.size - from, wanted));
  MutexLock lock(mu_);
  CloseIfEnded();
  if (!Untouched(use.begin, from)) return {};
  return cut ? CutFrom(use.acknowledged, data) : LinesFrom(from, std::move(data), ended);
}

bool SpoolFile::Untouched(uint64_t begin, uint64_t offset) const {
  return use_.begin == begin && hole_end_ <= offset;
}

SpoolFile::Piece SpoolFile::Emptied() const {
  const uint64_t offset = use_.acknowledged;
  return {.offset = offset,
          .cut_bytes = anew_ - offset,
          .emptied = true,
          .times = found_.Of(offset, anew_)};
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
  if (begin <= use().begin) return trouble();
  const Descriptor file = Open();
  if (file == nullptr) return trouble();
  uint64_t hole = 0;  // in the file
  {
    MutexLock lock(mu_);
    hole = begin - std::min(begin, shift_);
    hole -= hole % kHoleUnit;
    if (hole + shift_ <= use_.begin) return trouble_;
    hole_end_ = hole + shift_;
  }
  const int error = make_hole_(*file, hole);
  MutexLock lock(mu_);
  hole_end_ = 0;
  CloseIfEnded();
  if (error != 0) return NoHole(path_, error);
  // The rank may have emptied the file meanwhile.
  use_.begin = std::max(use_.begin, std::min(hole + shift_, use_.size));
  return absl::OkStatus();
}

FileGlimpse SpoolFile::glimpse() const {
  MutexLock lock(mu_);
  return glimpse_;
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
