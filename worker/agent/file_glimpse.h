#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// Whether a file has only grown between two looks at it. Pure.

namespace dp::worker {

// What one look at a file has shown.
struct FileGlimpse {
  // How many of the last bytes are remembered.
  static constexpr uint64_t kTailBytesMax = 256;
  // By then a write whose time of modification was seen has set the size, too.
  static constexpr absl::Duration kSettlesIn = absl::Milliseconds(10);

  absl::Time seen = absl::InfinitePast();  // by the first look that saw it so
  uint64_t size = 0;
  absl::Time modified = absl::InfinitePast();
  std::string tail;  // the last bytes before `size`: kTailBytesMax, or the whole of a shorter file
  // The look saw a later modification than `modified`, and nothing else new: another writing of the
  // same bytes, or a write whose size is still to come.
  bool touched = false;

  uint64_t tail_begin() const { return size - tail.size(); }
  // The tail is all that the file holds, and it holds something.
  bool whole() const { return !tail.empty() && tail.size() == size; }
  bool operator==(const FileGlimpse&) const = default;
};

// How a file has changed since `before`, another look at it.
struct FileChange {
  FileGlimpse glimpse;  // what to compare the next look with
  // Set if the file was emptied or written over: the start of the first line that differs from
  // `before.tail`; 0 if the file has shrunk. Not set if bytes were only added.
  std::optional<uint64_t> anew;
};

// `now` is the latest look, `tail_now` the bytes that stand where `before.tail` stood.
// Not noticed: a file of more than kTailBytesMax that is emptied and written again between two
// looks, and then has the same tail at the same place.
FileChange ChangeOf(const FileGlimpse& before, FileGlimpse now, absl::string_view tail_now);

}  // namespace dp::worker
