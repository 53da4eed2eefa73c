#include "server/logs/log_file.h"

#include <fcntl.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "server/logs/line_times.h"
#include "server/logs/log_disk.h"

namespace dp::server {
namespace {

constexpr uint64_t kTailScanBytesMax = 4 << 20;

std::filesystem::path Beside(const std::filesystem::path& path, const char* ending) {
  return path.string() + ending;
}

// The value of an entry is the gap's end, shifted left by one. The lowest bit says that the bytes
// were removed here. An entry of no bytes says that the rank emptied its file of the next entry's
// bytes.
constexpr uint64_t kRemovedBit = 1;

std::vector<LogIndex::Entry> ToEntries(const LogGap& gap) {
  const uint64_t value = gap.end << 1;
  switch (gap.reason) {
    case LogGap::Reason::kWorker:
      return {{gap.begin, value}};
    case LogGap::Reason::kEmptied:
      // The bit keeps the values ascending behind an entry that has it.
      return {{gap.begin, gap.begin << 1 | kRemovedBit}, {gap.begin, value}};
    case LogGap::Reason::kRemoved:
      return {{gap.begin, value | kRemovedBit}};
  }
  DP_CHECK(false);
}

// The gaps of a stream of `end` bytes, and how many entries make them. Ends before the first entry
// that nobody has written: such gaps would lead readers back, or beyond the end.
struct ReadGaps {
  std::vector<LogGap> gaps;
  size_t entries = 0;
};
ReadGaps ToGaps(const std::vector<LogIndex::Entry>& entries, uint64_t end) {
  ReadGaps read;
  uint64_t at = 0;
  bool emptied = false;
  for (const LogIndex::Entry& entry : entries) {
    const LogGap gap{entry.offset, entry.value >> 1,
                     (entry.value & kRemovedBit) != 0 ? LogGap::Reason::kRemoved
                     : emptied                        ? LogGap::Reason::kEmptied
                                                      : LogGap::Reason::kWorker};
    if (gap.begin < at || gap.end < gap.begin || gap.end > end) break;
    at = gap.end;
    emptied = gap.begin == gap.end;
    if (!emptied) read.gaps.push_back(gap);
    ++read.entries;
  }
  return read;
}

}  // namespace

LogFile::LogFile(std::filesystem::path path)
    : path_(std::move(path)), times_(Beside(path_, ".times")), gap_index_(Beside(path_, ".gaps")) {}

absl::StatusOr<LogFile> LogFile::Open(const std::filesystem::path& path) {
  LogFile file(path);
  DP_ASSIGN_OR_RETURN(file.end_, SizeOf(path));
  DP_RETURN_IF_ERROR(file.RecoverCut());
  DP_RETURN_IF_ERROR(file.RecoverGaps());
  DP_RETURN_IF_ERROR(file.RecoverLine());
  DP_ASSIGN_OR_RETURN(file.times_, LogIndex::Open(Beside(path, ".times"), file.stored_end()));
  return file;
}

absl::Status LogFile::RecoverCut() {
  DP_ASSIGN_OR_RETURN(const uint64_t size, SizeOf(Beside(path_, ".cut")));
  if (size == 0) return absl::OkStatus();
  DP_ASSIGN_OR_RETURN(const std::string text, ReadAt(Beside(path_, ".cut"), 0, 32));
  cut_ = absl::SimpleAtoi(text, &cut_begin_) && cut_begin_ < end_;
  if (cut_) return absl::OkStatus();
  // A torn record was never acknowledged, and neither was the hole that it describes. It goes away,
  // because it would count once the stream has grown past it.
  std::error_code error;
  if (!std::filesystem::remove(Beside(path_, ".cut"), error) && error) {
    return absl::InternalError(
        absl::StrCat("log file ", path_.string(), ".cut cannot be removed: ", error.message()));
  }
  return SyncPath(path_.parent_path());
}

absl::Status LogFile::RecoverGaps() {
  DP_ASSIGN_OR_RETURN(gap_index_, LogIndex::Open(Beside(path_, ".gaps"), end_));
  DP_ASSIGN_OR_RETURN(const std::vector<LogIndex::Entry> entries,
                      gap_index_.Read(0, gap_index_.size()));
  const ReadGaps read = ToGaps(entries, stored_end());
  for (const LogGap& gap : read.gaps) AddGap(gap);
  return gap_index_.Keep(read.entries);
}

absl::Status LogFile::RecoverLine() {
  const uint64_t after_gap = gaps_.empty() ? 0 : std::min(gaps_.back().end, stored_end());
  const uint64_t looked_at = std::min<uint64_t>(stored_end() - after_gap, kWholeLineBytesMax);
  DP_ASSIGN_OR_RETURN(const std::string last, Read(stored_end() - looked_at, looked_at));
  line_begin_ = stored_end() - looked_at;
  ReadLine(last, line_begin_);
  return absl::OkStatus();
}

void LogFile::ReadLine(absl::string_view data, uint64_t begin) {
  const size_t newline = data.rfind('\n');
  if (newline != data.npos) {
    line_begin_ = begin + newline + 1;
    line_returns_ = false;
    data.remove_prefix(newline + 1);
  }
  line_returns_ = line_returns_ || data.find('\r') != data.npos;
}

absl::Status LogFile::Append(absl::string_view data, const std::vector<LogTime>& times) {
  DP_CHECK(!cut_);
  if (data.empty()) return absl::OkStatus();
  const NewBytes bytes{data, end_, line_begin_ == end_};
  DP_RETURN_IF_ERROR(times_.Append(LineTimes(bytes, times, times_.last())));
  DP_RETURN_IF_ERROR(WriteAt(path_, end_, data));
  ReadLine(data, end_);
  end_ += data.size();
  return absl::OkStatus();
}

absl::Status LogFile::AppendGap(uint64_t size, LogGap::Reason reason,
                                const std::vector<LogTime>& times) {
  if (cut_) return Skip(size);
  const NewBytes mark{"\n", end_, /*begins_line=*/true};
  const std::vector<LogTime> first(times.begin(), times.empty() ? times.end() : times.begin() + 1);
  DP_RETURN_IF_ERROR(times_.Append(LineTimes(mark, first, times_.last())));
  DP_RETURN_IF_ERROR(NoteGap({end_, end_ + size, reason}));
  DP_RETURN_IF_ERROR(ResizeFile(path_, end_ + size));
  end_ += size;
  line_begin_ = end_;
  line_returns_ = false;
  return absl::OkStatus();
}

// Durable at once: if the stream grew over a gap that is not on record, the gap would read as
// zeros.
absl::Status LogFile::NoteGap(const LogGap& gap) {
  DP_RETURN_IF_ERROR(gap_index_.Append(ToEntries(gap)));
  DP_RETURN_IF_ERROR(gap_index_.Sync());
  DP_RETURN_IF_ERROR(SyncPath(path_.parent_path()));
  AddGap(gap);
  return absl::OkStatus();
}

void LogFile::AddGap(const LogGap& gap) {
  const bool goes_on =
      !gaps_.empty() && gaps_.back().end == gap.begin && gaps_.back().reason == gap.reason;
  if (goes_on) {
    gaps_.back().end = gap.end;
  } else {
    gaps_.push_back(gap);
  }
}

absl::Status LogFile::Skip(uint64_t size) {
  if (!cut_) {
    const std::filesystem::path record = Beside(path_, ".cut");
    // An earlier process may have left a longer record.
    DP_RETURN_IF_ERROR(WriteAt(record, 0, absl::StrCat(end_), O_TRUNC));
    DP_RETURN_IF_ERROR(SyncPath(record));
    cut_begin_ = end_;
    cut_ = true;
  }
  DP_RETURN_IF_ERROR(ResizeFile(path_, end_ + size));
  end_ += size;
  return absl::OkStatus();
}

absl::Status LogFile::Remove() {
  if (end_ == 0) return absl::OkStatus();
  gap_index_ = LogIndex(Beside(path_, ".gaps"));
  gaps_.clear();
  // The bytes go first: on a full disk the record of the gap has no room before. A crash in between
  // leaves an empty stream, which shows no gap and takes no room.
  DP_RETURN_IF_ERROR(ResizeFile(path_, 0));
  DP_RETURN_IF_ERROR(ResizeFile(Beside(path_, ".gaps"), 0));
  DP_RETURN_IF_ERROR(NoteGap({0, end_, LogGap::Reason::kRemoved}));
  DP_RETURN_IF_ERROR(ResizeFile(path_, end_));
  std::error_code error;
  std::filesystem::remove(Beside(path_, ".times"), error);
  std::filesystem::remove(Beside(path_, ".cut"), error);
  times_ = LogIndex(Beside(path_, ".times"));
  cut_ = false;
  line_begin_ = end_;
  line_returns_ = false;
  return absl::OkStatus();
}

absl::Status LogFile::Sync() {
  if (times_.size() > 0) DP_RETURN_IF_ERROR(times_.Sync());
  DP_RETURN_IF_ERROR(SyncPath(path_));
  if (name_durable_) return absl::OkStatus();
  DP_RETURN_IF_ERROR(SyncNames(path_));
  name_durable_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::string> LogFile::Read(uint64_t offset, uint64_t size) const {
  size = std::min(size, stored_end() - std::min(offset, stored_end()));
  if (size == 0) return std::string();
  return ReadAt(path_, offset, size);
}

const LogGap* LogFile::GapAtOrBehind(uint64_t offset) const {
  const auto gap = std::upper_bound(gaps_.begin(), gaps_.end(), offset,
                                    [](uint64_t at, const LogGap& each) { return at < each.end; });
  return gap == gaps_.end() ? nullptr : &*gap;
}

absl::StatusOr<uint64_t> LogFile::TailStart(uint64_t end, int lines) const {
  end = std::min(end, stored_end());
  const uint64_t after_gap = gaps_.empty() ? 0 : std::min(gaps_.back().end, end);
  const uint64_t size = std::min(end - after_gap, kTailScanBytesMax);
  const uint64_t begin = end - size;
  DP_ASSIGN_OR_RETURN(const std::string data, Read(begin, size));
  // A newline as the very last byte ends the last line; it does not begin another.
  size_t at = data.size();
  if (at > 0 && data[at - 1] == '\n') --at;
  for (int line = 0; line < lines; ++line) {
    const size_t newline = at == 0 ? data.npos : data.rfind('\n', at - 1);
    if (newline == data.npos) {
      // The mark of the gap is a line too.
      const bool tells_gap = begin == after_gap && begin > 0 && (line + 1 < lines || size == 0);
      return tells_gap ? gaps_.back().begin : begin;
    }
    at = newline;
  }
  return begin + at + 1;
}

absl::StatusOr<uint64_t> LogFile::Since(absl::Time time, uint64_t end) const {
  DP_ASSIGN_OR_RETURN(const uint64_t older, times_.CountBelow(ToIndexValue(time)));
  DP_ASSIGN_OR_RETURN(const std::vector<LogIndex::Entry> first, times_.Read(older, 1));
  return first.empty() ? end : std::min(first.front().offset, end);
}

absl::StatusOr<std::vector<LogTime>> LogFile::Times(uint64_t begin, uint64_t end) const {
  std::vector<LogTime> times;
  // Includes the time that holds at `begin`.
  DP_ASSIGN_OR_RETURN(const uint64_t up_to_begin, times_.CountBefore(begin + 1));
  DP_ASSIGN_OR_RETURN(const uint64_t last, times_.CountBefore(end));
  const uint64_t first = up_to_begin == 0 ? 0 : up_to_begin - 1;
  if (last <= first) return times;
  DP_ASSIGN_OR_RETURN(const std::vector<LogIndex::Entry> entries, times_.Read(first, last - first));
  for (const LogIndex::Entry& entry : entries) {
    times.push_back({std::max(entry.offset, begin), FromIndexValue(entry.value)});
  }
  return times;
}

uint64_t LogFile::readable_end() const {
  if (cut_) return stored_end();
  const bool waits = !line_returns_ && end_ - line_begin_ < kWholeLineBytesMax;
  return waits ? line_begin_ : end_;
}

uint64_t LogFile::disk_bytes() const {
  uint64_t bytes = stored_end() + times_.bytes() + gap_index_.bytes();
  for (const LogGap& gap : gaps_) bytes -= gap.end - gap.begin;
  return bytes;
}

}  // namespace dp::server
