#pragma once

#include <cstdint>
#include <vector>

// How much of ranks' output a host keeps. Pure.

namespace dp::worker {

// A file of the spool: it keeps its bytes [begin, size). Those before `acknowledged` are stored at
// the coordinator.
struct SpoolUse {
  uint64_t begin = 0;
  uint64_t acknowledged = 0;
  uint64_t size = 0;
};

// What a file keeps in any case: the last lines of a rank are read from it.
inline constexpr uint64_t kSpoolTailBytes = 64 << 10;

// The file system of the spool, in bytes. The default is one without end.
struct DiskSpace {
  uint64_t capacity = ~uint64_t{0};
  uint64_t available = ~uint64_t{0};
};

// How many bytes spools leave free on their disk: a sixteenth, at most 256 MiB, which is more than
// ranks write between two looks.
uint64_t SpoolReserve(const DiskSpace& disk);

// How many bytes all files may keep, if they keep `kept` now: `bytes_max`, or less by what the disk
// lacks of the reserve.
uint64_t SpoolBytesMax(uint64_t bytes_max, uint64_t kept, const DiskSpace& disk);

// How many bytes the files keep together.
uint64_t KeptBy(const std::vector<SpoolUse>& files);

// Where each file is to begin from now on, so that all of them keep no more than `bytes_max`. While
// they do, nothing changes. Else they first give up what is stored; and where that is not enough,
// the files that keep most give up their oldest bytes until all keep the same, and together an
// eighth less than they may, so that few large parts are lost and not many small ones: who floods
// pays for it, the others lose nothing.
std::vector<uint64_t> FitSpools(const std::vector<SpoolUse>& files, uint64_t bytes_max);

}  // namespace dp::worker
