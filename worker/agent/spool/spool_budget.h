#pragma once

#include <cstdint>
#include <vector>

// How much of ranks' output a host keeps. Pure.

namespace dp::worker {

// A file of the spool, which keeps its bytes [begin, size). The coordinator has stored those before
// `acknowledged`.
struct SpoolUse {
  uint64_t begin = 0;
  uint64_t acknowledged = 0;
  uint64_t size = 0;
};

// Each file keeps at least so many bytes: the last lines of a rank are read from them.
inline constexpr uint64_t kSpoolTailBytes = 64 << 10;

// The file system of the spool, in bytes; unlimited by default.
struct DiskSpace {
  uint64_t capacity = ~uint64_t{0};
  uint64_t available = ~uint64_t{0};
};

// How many bytes spools leave free on their disk: a sixteenth, at most 256 MiB. Ranks write less
// than that between two looks.
uint64_t SpoolReserve(const DiskSpace& disk);

// Bounds on what all files keep together.
struct SpoolBounds {
  uint64_t stored = 0;  // past this, they drop what the coordinator has
  uint64_t unsent = 0;  // past this, their oldest bytes; at least `stored`

  bool operator==(const SpoolBounds&) const = default;
};

// The bounds for files that keep `kept` bytes now: `bytes_max`, or less by what the disk lacks of
// the reserve. However full other programs make the disk, unsent bytes may take as much as the
// reserve.
SpoolBounds BoundsOf(uint64_t bytes_max, uint64_t kept, const DiskSpace& disk);

// How many bytes the files keep together.
uint64_t KeptBy(const std::vector<SpoolUse>& files);

// Where each file is to begin, so that all files keep within `bounds`. Nothing changes while they
// do. Otherwise they first drop what the coordinator has. If that is not enough, the files that
// keep most drop their oldest bytes. They then all keep the same, and together an eighth less than
// the bound. Few large parts are lost and not many small ones, and the ranks that flood pay.
std::vector<uint64_t> FitSpools(const std::vector<SpoolUse>& files, const SpoolBounds& bounds);

}  // namespace dp::worker
