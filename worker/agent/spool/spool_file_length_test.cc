// A rank can give its file any size without writing so much, and empty it again.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/spool/spool_file.h"

namespace dp::worker {
namespace {

using ::testing::HasSubstr;

constexpr off_t kLongest = std::numeric_limits<off_t>::max();

// On tmpfs, whose files may be of any size; ext4 has no more than 16 TiB.
class SpoolFileLengthTest : public testing::Test {
 protected:
  void SetUp() override {
    char dir[] = "/dev/shm/dp-spool-test-XXXXXX";
    if (mkdtemp(dir) == nullptr) GTEST_SKIP() << "no directory can be made in /dev/shm";
    dir_ = dir;
    path_ = dir_ + "/0.out";
    std::ofstream(path_) << "one\n";
    if (truncate(path_.c_str(), kLongest) != 0) {
      GTEST_SKIP() << "/dev/shm has no files of 2^63-1 bytes";
    }
  }
  void TearDown() override {
    if (!dir_.empty()) std::filesystem::remove_all(dir_);
  }
  // As a rank does that tries to drive the offsets to their end. Each look notices it.
  void EmptyAndStretch(SpoolFile& file, int times) {
    for (int i = 0; i < times; ++i) {
      std::ofstream(path_) << "again " << i << '\n';
      file.Look(Later());
      ASSERT_EQ(truncate(path_.c_str(), kLongest), 0);
      file.Look(Later());
    }
  }
  // The next look at a file that is emptied in a loop comes after a minute at most.
  absl::Time Later() { return now_ += absl::Minutes(2); }

  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  std::string dir_, path_;
};

TEST_F(SpoolFileLengthTest, OffsetsEndAtTheBoundHoweverOftenTheFileIsStretched) {
  SpoolFile file(path_, /*left_over=*/false);
  file.Look(Later());
  EXPECT_EQ(file.use().size, SpoolFile::kStreamBytesMax);
  uint64_t before = 0;
  for (int i = 0; i < 5; ++i) {
    EmptyAndStretch(file, 1);
    const SpoolUse use = file.use();
    EXPECT_GE(use.size, before);
    EXPECT_LE(use.begin, use.size);
    EXPECT_LE(use.size, SpoolFile::kStreamBytesMax + 1);
    before = use.size;
  }
}

TEST_F(SpoolFileLengthTest, WhatIsBeyondTheBoundCountsAsMissingAndTheStreamEnds) {
  SpoolFile file(path_, /*left_over=*/false);
  file.Look(Later());
  EmptyAndStretch(file, 3);
  const SpoolFile::Piece piece = file.Next(1 << 20, /*ended=*/true);
  EXPECT_TRUE(piece.emptied);
  EXPECT_EQ(piece.offset + piece.cut_bytes, SpoolFile::kStreamBytesMax + 1);
  file.Acknowledge(piece.offset + piece.cut_bytes);
  EXPECT_TRUE(file.sent());
  EXPECT_TRUE(file.Next(1 << 20, /*ended=*/true).empty());
}

TEST_F(SpoolFileLengthTest, TheDaemonSaysSoOnce) {
  testing::internal::CaptureStderr();
  SpoolFile file(path_, /*left_over=*/false);
  file.Look(Later());
  EmptyAndStretch(file, 3);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("event=logs_too_long file=" + path_));
  EXPECT_EQ(log.find("logs_too_long"), log.rfind("logs_too_long"));
}

TEST_F(SpoolFileLengthTest, TheNextDaemonKeepsTheBound) {
  {
    SpoolFile file(path_, /*left_over=*/false);
    file.Look(Later());
    EmptyAndStretch(file, 2);
  }
  SpoolFile file(path_, /*left_over=*/true);
  EXPECT_EQ(file.use().size, SpoolFile::kStreamBytesMax + 1);
  EXPECT_LE(file.use().begin, file.use().size);
}

}  // namespace
}  // namespace dp::worker
