#include "server/logs/log_index.h"

#include <algorithm>
#include <string>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/status.h"
#include "server/logs/log_disk.h"

namespace dp::server {
namespace {

constexpr size_t kNumberBytes = 8;
constexpr uint64_t kEntryBytes = 2 * kNumberBytes;

void AddIndexNumber(uint64_t number, std::string& bytes) {
  for (size_t i = 0; i < kNumberBytes; ++i) bytes.push_back(static_cast<char>(number >> (8 * i)));
}

uint64_t IndexNumberAt(absl::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = kNumberBytes; i-- > 0;) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}

}  // namespace

absl::StatusOr<LogIndex> LogIndex::Open(std::filesystem::path path, uint64_t stream_end) {
  LogIndex index(std::move(path));
  DP_ASSIGN_OR_RETURN(const uint64_t bytes, SizeOf(index.path_));
  index.size_ = bytes / kEntryBytes;
  DP_ASSIGN_OR_RETURN(index.size_, index.CountBefore(stream_end));
  // Otherwise these entries would count again once the stream has grown past them.
  if (index.bytes() < bytes) DP_RETURN_IF_ERROR(ResizeFile(index.path_, index.bytes()));
  DP_RETURN_IF_ERROR(index.ReadLast());
  return index;
}

absl::Status LogIndex::ReadLast() {
  last_.reset();
  if (size_ == 0) return absl::OkStatus();
  DP_ASSIGN_OR_RETURN(const std::vector<Entry> last, Read(size_ - 1, 1));
  if (!last.empty()) last_ = last.front();
  return absl::OkStatus();
}

absl::Status LogIndex::Keep(uint64_t count) {
  if (count >= size_) return absl::OkStatus();
  size_ = count;
  DP_RETURN_IF_ERROR(ResizeFile(path_, bytes()));
  return ReadLast();
}

absl::Status LogIndex::Append(const std::vector<Entry>& entries) {
  if (entries.empty()) return absl::OkStatus();
  std::string bytes;
  for (const Entry& entry : entries) {
    DP_CHECK(!last_ || (entry.offset >= last_->offset && entry.value >= last_->value));
    AddIndexNumber(entry.offset, bytes);
    AddIndexNumber(entry.value, bytes);
    last_ = entry;
  }
  DP_RETURN_IF_ERROR(WriteAt(path_, size_ * kEntryBytes, bytes));
  size_ += entries.size();
  return absl::OkStatus();
}

absl::Status LogIndex::Sync() const { return SyncPath(path_); }

template <typename IsBefore>
absl::StatusOr<uint64_t> LogIndex::Bisect(IsBefore is_before) const {
  uint64_t begin = 0, end = size_;
  while (begin < end) {
    const uint64_t middle = begin + (end - begin) / 2;
    DP_ASSIGN_OR_RETURN(const std::vector<Entry> entry, Read(middle, 1));
    if (!entry.empty() && is_before(entry.front())) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

absl::StatusOr<uint64_t> LogIndex::CountBefore(uint64_t offset) const {
  if (!last_ || last_->offset >= offset) {
    return Bisect([offset](const Entry& entry) { return entry.offset < offset; });
  }
  return size_;
}

absl::StatusOr<uint64_t> LogIndex::CountBelow(uint64_t value) const {
  return Bisect([value](const Entry& entry) { return entry.value < value; });
}

absl::StatusOr<std::vector<LogIndex::Entry>> LogIndex::Read(uint64_t first, uint64_t count) const {
  std::vector<Entry> entries;
  count = std::min(count, size_ - std::min(first, size_));
  if (count == 0) return entries;
  DP_ASSIGN_OR_RETURN(const std::string bytes,
                      ReadAt(path_, first * kEntryBytes, count * kEntryBytes));
  for (absl::string_view rest = bytes; rest.size() >= kEntryBytes;
       rest.remove_prefix(kEntryBytes)) {
    entries.push_back({IndexNumberAt(rest), IndexNumberAt(rest.substr(kNumberBytes))});
  }
  return entries;
}

uint64_t LogIndex::bytes() const { return size_ * kEntryBytes; }

}  // namespace dp::server
