#include "server/program/disk_shares.h"

#include <gtest/gtest.h>

namespace dp::server {
namespace {

constexpr uint64_t kShareMiB = uint64_t{1} << 20;
constexpr uint64_t kShareGiB = uint64_t{1} << 30;

TEST(DiskSharesTest, AllThatIsGrantedFitsTheDisk) {
  for (const uint64_t disk :
       {220 * kShareMiB, kShareGiB, 10 * kShareGiB, 100 * kShareGiB, 1000 * kShareGiB}) {
    const DiskShares shares = SharesOf(disk);
    // The journal: three times the specs, and a write-ahead log.
    EXPECT_LT(shares.logs_bytes_max + shares.parameters_bytes_max + 3 * shares.job_specs_bytes_max +
                  shares.ballast_bytes,
              disk)
        << disk;
    EXPECT_LT(shares.job_logs_bytes_max, shares.logs_bytes_max);
  }
}

// The volume that the Kubernetes manifests claim.
TEST(DiskSharesTest, AVolumeOfTenGiBIsSharedOut) {
  const DiskShares shares = SharesOf(10 * kShareGiB);
  EXPECT_EQ(shares.logs_bytes_max, 5 * kShareGiB);
  EXPECT_EQ(shares.job_logs_bytes_max, kShareGiB);
  EXPECT_EQ(shares.log_disk_reserve, 640 * kShareMiB);
  EXPECT_EQ(shares.job_specs_bytes_max, 256 * kShareMiB);
}

TEST(DiskSharesTest, ALargeDiskIsNotTakenForNoReason) {
  const DiskShares shares = SharesOf(100'000 * kShareGiB);
  EXPECT_EQ(shares.logs_bytes_max, 64 * kShareGiB);
  EXPECT_EQ(shares.log_disk_reserve, kShareGiB);
  EXPECT_EQ(shares.parameters_bytes_max, 256 * kShareGiB);
  EXPECT_EQ(shares.ballast_bytes, 32 * kShareMiB);
}

// Logs stop first, then jobs. A disk that has just the ballast takes values, but no job.
TEST(DiskSharesTest, LogsStopBeforeTheJournal) {
  for (const uint64_t disk : {50 * kShareMiB, 220 * kShareMiB, 10 * kShareGiB, 1000 * kShareGiB}) {
    const DiskShares shares = SharesOf(disk);
    EXPECT_GT(shares.log_disk_reserve, shares.submit_reserve);
    EXPECT_GT(shares.submit_reserve, shares.ballast_bytes);
    EXPECT_GT(shares.ballast_bytes, shares.floor);
  }
}

}  // namespace
}  // namespace dp::server
