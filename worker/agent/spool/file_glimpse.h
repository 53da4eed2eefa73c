#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// Whether a file of a rank's output has only grown since the last look at it. Pure.

namespace dp::worker {

// The result of one look at a file.
struct FileGlimpse {
  // How many of the first bytes a look remembers.
  static constexpr uint64_t kHeadBytesMax = 256;

  uint64_t size = 0;
  absl::Time modified = absl::InfinitePast();
  std::string head;  // the first bytes

  bool operator==(const FileGlimpse&) const = default;
};

// Returns whether the file was emptied since the look `before`: it is shorter, or begins with other
// bytes. Misses a file that was emptied and has reached its old size again with the same first
// bytes.
bool WasEmptied(const FileGlimpse& before, uint64_t size_now, absl::string_view head_now);

// Returns when to look again at a file that was emptied `times` times, the last time at `at`. Each
// mark costs the coordinator two syncs. If a rank empties its file in a loop, looks become rarer,
// at last one a minute.
absl::Time NextGlimpse(int times, absl::Time at);

}  // namespace dp::worker
