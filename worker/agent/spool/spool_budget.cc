#include "worker/agent/spool/spool_budget.h"

#include <algorithm>

namespace dp::worker {
namespace {

uint64_t KeptFrom(const std::vector<SpoolUse>& files, const std::vector<uint64_t>& begins) {
  uint64_t kept = 0;
  for (size_t i = 0; i < files.size(); ++i) kept += files[i].size - begins[i];
  return kept;
}

// The begin of a file that keeps its last `keep` bytes, and at least the tail.
uint64_t BeginForLast(uint64_t keep, const SpoolUse& file, uint64_t begin) {
  keep = std::max(keep, kSpoolTailBytes);
  return std::max(begin, file.size - std::min(file.size, keep));
}

uint64_t KeptAtLevel(const std::vector<SpoolUse>& files, const std::vector<uint64_t>& begins,
                     uint64_t level) {
  uint64_t kept = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    kept += files[i].size - BeginForLast(level, files[i], begins[i]);
  }
  return kept;
}

}  // namespace

uint64_t SpoolReserve(const DiskSpace& disk) {
  return std::min<uint64_t>(disk.capacity / 16, 256 << 20);
}

SpoolBounds BoundsOf(uint64_t bytes_max, uint64_t kept, const DiskSpace& disk) {
  const uint64_t reserve = SpoolReserve(disk);
  const uint64_t lacking = reserve - std::min(reserve, disk.available);
  if (lacking == 0) return {bytes_max, bytes_max};
  const uint64_t room = kept - std::min(kept, lacking);
  return {std::min(bytes_max, room), std::min(bytes_max, std::max(room, reserve))};
}

uint64_t KeptBy(const std::vector<SpoolUse>& files) {
  uint64_t kept = 0;
  for (const SpoolUse& file : files) kept += file.size - file.begin;
  return kept;
}

std::vector<uint64_t> FitSpools(const std::vector<SpoolUse>& files, const SpoolBounds& bounds) {
  std::vector<uint64_t> begins;
  for (const SpoolUse& file : files) begins.push_back(file.begin);
  if (KeptFrom(files, begins) <= bounds.stored) return begins;
  for (size_t i = 0; i < files.size(); ++i) {
    const uint64_t stored = std::min(files[i].acknowledged, files[i].size);
    begins[i] = std::max(begins[i], std::min(stored, BeginForLast(0, files[i], begins[i])));
  }
  if (KeptFrom(files, begins) <= bounds.unsent) return begins;
  const uint64_t wanted = bounds.unsent - bounds.unsent / 8;
  uint64_t level = 0;  // the largest at which they keep no more than wanted
  for (uint64_t step = uint64_t{1} << 62; step > 0; step /= 2) {
    if (KeptAtLevel(files, begins, level + step) <= wanted) level += step;
  }
  for (size_t i = 0; i < files.size(); ++i) begins[i] = BeginForLast(level, files[i], begins[i]);
  return begins;
}

}  // namespace dp::worker
