#include "worker/agent/spool/spool_file.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/program/log.h"
#include "base/replace_file.h"
#include "worker/agent/spool/output_lines.h"

namespace dp::worker {
namespace {

// Holes begin and end at multiples of this; no usual file system has larger blocks.
constexpr uint64_t kHoleUnit = 64 << 10;
// The block of usual file systems. A rank that writes behind a gap leaves a hole of blocks.
constexpr uint64_t kBlockBytes = 4 << 10;

std::string ReadFrom(const FileDescriptor& file, uint64_t offset, uint64_t size) {
  std::string data(size, '\0');
  const ssize_t got = pread(file.get(), data.data(), data.size(), static_cast<off_t>(offset));
  data.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return data;
}

// Where the first byte lies that was not dropped: behind the hole, and the zeros of its last block.
uint64_t FirstData(const FileDescriptor& file, uint64_t size) {
  const off_t data = lseek(file.get(), 0, SEEK_DATA);
  if (data <= 0) return data < 0 && errno == ENXIO ? size : 0;
  const std::string block = ReadFrom(file, static_cast<uint64_t>(data), kBlockBytes);
  return std::min(
      size, static_cast<uint64_t>(data) + std::min(block.size(), block.find_first_not_of('\0')));
}

std::string HeadOf(const FileDescriptor& file, uint64_t size) {
  return ReadFrom(file, 0, std::min(size, FileGlimpse::kHeadBytesMax));
}

// 0 if the file was never emptied, and if the note of it is damaged. In that case the coordinator's
// offset shows that it was (Acknowledge).
uint64_t ReadShift(const std::string& path) {
  std::ifstream file(path + SpoolFile::kShiftSuffix);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  uint64_t shift = 0;
  return absl::SimpleAtoi(text, &shift) && shift <= SpoolFile::kStreamBytesMax + 1 ? shift : 0;
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

constexpr absl::Duration kLongerEachTime = absl::Milliseconds(100);
constexpr absl::Duration kLongest = absl::Minutes(1);

}  // namespace

int SpoolFile::PunchHole(const FileDescriptor& file, uint64_t end) {
  constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  return fallocate(file.get(), kHole, 0, static_cast<off_t>(end)) == 0 ? 0 : errno;
}

SpoolFile::SpoolFile(const std::string& path, bool left_over, MakeHole make_hole,
                     std::shared_ptr<const SecretMask> mask)
    : path_(path),
      left_over_(left_over),
      make_hole_(std::move(make_hole)),
      mask_(std::move(mask)),
      ended_(left_over) {
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
  // The rank's user owns the file, and could let others wait for it by a lease (fcntl(2)).
  FileDescriptor file(open(path_.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  Opened opened;
  if (!file.valid() || fstat(file.get(), &opened.info) != 0) {
    opened.error = errno;
    return opened;
  }
  const uint64_t size = static_cast<uint64_t>(opened.info.st_size);
  opened.head = HeadOf(file, size);
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
  glimpse_ = {static_cast<uint64_t>(opened.info.st_size), modified, opened.head};
  shift_ = tried_shift_ = anew_ = opened.shift;
  use_.size = EndOf(glimpse_.size);
  use_.begin = EndOf(opened.first_data);
  if (use_.size > 0) found_.Add(0, modified);
}

void SpoolFile::CloseIfEnded() {
  if (ended_) file_.reset();
}

bool SpoolFile::ended_and_measured() const {
  MutexLock lock(mu_);
  return ended_ && inode_;
}

void SpoolFile::Look(absl::Time now) {
  if (ended_and_measured() || !LookIsDue(now)) return;
  const Descriptor file = Open();
  if (file == nullptr) return;
  while (!Notice(*file, now)) continue;
  RecordShift();
  TellTooLong();
  MutexLock lock(mu_);
  CloseIfEnded();
}

bool SpoolFile::LookIsDue(absl::Time now) const {
  MutexLock lock(mu_);
  return now < emptied_at_ || now >= NextGlimpse(emptied_, emptied_at_);
}

bool SpoolFile::Notice(const FileDescriptor& file, absl::Time now) {
  const FileGlimpse before = glimpse();
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return true;
  const uint64_t size_now = static_cast<uint64_t>(info.st_size);
  const absl::Time modified = absl::TimeFromTimespec(info.st_mtim);
  if (size_now == before.size && modified == before.modified) return true;
  FileGlimpse latest{size_now, modified, HeadOf(file, size_now)};
  const uint64_t first = FirstData(file, size_now);
  MutexLock lock(mu_);
  if (glimpse_ != before) return false;
  // The head may lie in a hole that is being made.
  if (hole_end_ > 0) latest.head = before.head;
  if (WasEmptied(before, latest.size, latest.head)) {
    GoOn(use_.size, first);
    ++emptied_;
    emptied_at_ = now;
  }
  glimpse_ = std::move(latest);
  const uint64_t size = EndOf(glimpse_.size);
  if (size > use_.size) found_.Add(use_.size, now);
  use_.size = size;
  return true;
}

void SpoolFile::GoOn(uint64_t end, uint64_t first) {
  // One byte stands for the unseen ones, also behind the last offset.
  shift_ = std::min(end, kStreamBytesMax) + 1;
  anew_ = use_.begin = EndOf(first);
  record_due_ = true;
}

uint64_t SpoolFile::EndOf(uint64_t file_bytes) const {
  return shift_ + std::min(file_bytes, kStreamBytesMax - std::min(shift_, kStreamBytesMax));
}

void SpoolFile::TellTooLong() {
  {
    MutexLock lock(mu_);
    if (too_long_ || use_.size < kStreamBytesMax) return;
    too_long_ = true;
  }
  Log(Severity::kWarning, "logs_too_long",
      {{"file", path_},
       {"bytes_max", kStreamBytesMax},
       {"reason", "the rank has made the file so long; further output in it is not sent"}});
}

void SpoolFile::RecordShift() {
  for (;;) {
    uint64_t shift = 0;
    bool first = false;
    {
      MutexLock lock(mu_);
      if (!record_due_ || recording_) return;
      record_due_ = false;
      recording_ = true;
      shift = shift_;
      first = tried_shift_ == 0;
    }
    const bool written = ReplaceFile(path_ + kShiftSuffix, absl::StrCat(shift));
    if (first) Log(Severity::kWarning, "logs_emptied", {{"file", path_}});
    MutexLock lock(mu_);
    recording_ = false;
    tried_shift_ = shift;
    if (written) continue;
    record_due_ = true;
    return;
  }
}

void SpoolFile::End(absl::Time now) {
  if (const Descriptor file = ended_and_measured() ? nullptr : Open(); file != nullptr) {
    while (!Notice(*file, now)) continue;
    RecordShift();
    TellTooLong();
  }
  MutexLock lock(mu_);
  ended_ = true;
  CloseIfEnded();
}

void SpoolFile::Acknowledge(uint64_t offset) {
  {
    MutexLock lock(mu_);
    use_.acknowledged = offset;
    found_.ForgetBefore(offset);
    if (inode_ && offset > use_.size) {
      GoOn(offset, use_.begin - shift_);
      found_.Add(offset, glimpse_.modified);
      use_.size = EndOf(glimpse_.size);
    }
  }
  RecordShift();
}

SpoolFile::Piece SpoolFile::Next(size_t bytes_max, bool ended) {
  SpoolUse use;
  uint64_t shift = 0;
  Window window;
  {
    MutexLock lock(mu_);
    if (use_.acknowledged >= use_.size || tried_shift_ != shift_) return {};
    if (use_.acknowledged < anew_) return Emptied();
    use = use_;
    shift = shift_;
    window.cut_before = use.begin > anew_;
  }
  const Descriptor file = Open();
  if (file == nullptr) return {};
  const bool cut = use.acknowledged < use.begin;
  const uint64_t from = std::max(use.acknowledged, use.begin);
  const uint64_t wanted = std::min<uint64_t>(use.size - from, cut ? kWholeLineBytesMax : bytes_max);
  window.begin = from - std::min<uint64_t>(from - use.begin, mask_->reach());
  window.cut_before = window.cut_before && window.begin == use.begin;
  window.end = std::min<uint64_t>(use.size, from + wanted + mask_->reach());
  window.at_end = window.end == use.size;
  std::string data =
      WithoutSecrets(ReadFrom(*file, window.begin - shift, window.end - window.begin), window, from,
                     wanted, ended);
  MutexLock lock(mu_);
  CloseIfEnded();
  if (!Untouched(use.begin, window.begin)) return {};
  return cut ? CutFrom(use.acknowledged, data) : LinesFrom(from, std::move(data), ended);
}

std::string SpoolFile::WithoutSecrets(std::string read, const Window& window, uint64_t from,
                                      uint64_t wanted, bool ended) const {
  const size_t before = static_cast<size_t>(from - window.begin);
  const size_t waiting = window.at_end && !ended ? mask_->OpenBytes(read) : 0;
  if (read.size() <= before + waiting) return "";
  mask_->Hide(&read, {.before = window.cut_before, .after = window.at_end && ended});
  read.resize(std::min<size_t>(read.size() - waiting, before + wanted));
  read.erase(0, before);
  return read;
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

// Up to the next whole line, if that is near.
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
    if (hole + shift_ <= use_.begin) {
      CloseIfEnded();
      return trouble_;
    }
    hole_end_ = hole + shift_;
  }
  const int error = make_hole_(*file, hole);
  MutexLock lock(mu_);
  hole_end_ = 0;
  CloseIfEnded();
  if (error != 0) return NoHole(path_, error);
  glimpse_.head.assign(glimpse_.head.size(), '\0');
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

bool WasEmptied(const FileGlimpse& before, uint64_t size_now, absl::string_view head_now) {
  return size_now < before.size || !absl::StartsWith(head_now, before.head);
}

absl::Time NextGlimpse(int times, absl::Time at) {
  return at + std::min(times * kLongerEachTime, kLongest);
}

}  // namespace dp::worker
