#include "server/program/disk_shares.h"

#include <algorithm>

namespace dp::server {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

}  // namespace

DiskShares SharesOf(uint64_t disk_bytes) {
  DiskShares shares{};
  shares.logs_bytes_max = std::clamp(disk_bytes / 2, kMiB, 64 * kGiB);
  shares.job_logs_bytes_max = std::clamp(disk_bytes / 8, kMiB, kGiB);
  shares.log_disk_reserve = std::clamp(disk_bytes / 16, 24 * kMiB, kGiB);
  shares.submit_reserve = shares.log_disk_reserve / 2;
  shares.job_specs_bytes_max = std::clamp(disk_bytes / 8, kMiB, 256 * kMiB);
  shares.ballast_bytes = std::clamp(disk_bytes / 64, 8 * kMiB, 32 * kMiB);
  shares.floor = shares.ballast_bytes / 2;
  const uint64_t others =
      shares.logs_bytes_max + 3 * shares.job_specs_bytes_max + shares.ballast_bytes;
  const uint64_t left = disk_bytes - std::min(disk_bytes, others);
  shares.parameters_bytes_max = std::clamp(left / 2, kMiB, 256 * kGiB);
  return shares;
}

}  // namespace dp::server
