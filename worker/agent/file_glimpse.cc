#include "worker/agent/file_glimpse.h"

#include <algorithm>
#include <utility>

namespace dp::worker {
namespace {

std::optional<uint64_t> AnewFrom(const FileGlimpse& before, const FileGlimpse& now,
                                 absl::string_view tail_now) {
  if (now.size < before.size) return 0;
  const absl::string_view tail = before.tail;
  const size_t same = static_cast<size_t>(
      std::mismatch(tail.begin(), tail.end(), tail_now.begin(), tail_now.end()).first -
      tail.begin());
  if (same < tail.size()) {
    const size_t newline = tail.substr(0, same).rfind('\n');
    return before.tail_begin() + (newline == tail.npos ? 0 : newline + 1);
  }
  // The same line once more. A longer file is also modified by a hole in its front.
  const bool settled = before.touched && now.seen >= before.seen + FileGlimpse::kSettlesIn;
  if (settled && now.size == before.size && now.modified != before.modified) return 0;
  return std::nullopt;
}

}  // namespace

FileChange ChangeOf(const FileGlimpse& before, FileGlimpse now, absl::string_view tail_now) {
  FileChange change{std::move(now), AnewFrom(before, now, tail_now)};
  FileGlimpse& glimpse = change.glimpse;
  if (change.anew || glimpse.size != before.size || !before.whole()) return change;
  glimpse.touched = glimpse.modified != before.modified;
  glimpse.modified = before.modified;
  if (before.touched) glimpse.seen = before.seen;
  return change;
}

}  // namespace dp::worker
