#include "server/driver/ballast.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/testing/scratch_dir.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

constexpr uint64_t kBallastBytes = 1 << 20;

class BallastTest : public ::testing::Test {
 protected:
  Ballast Open() {
    return Ballast(file_, kBallastBytes, [this] { return available_; });
  }
  uint64_t Blocks() const {
    struct stat info {};
    return stat(file_.c_str(), &info) == 0 ? uint64_t{512} * info.st_blocks : 0;
  }

  const ScratchDir scratch_;
  const std::filesystem::path file_ = scratch_.path() / "ballast";
  uint64_t available_ = 100 * kBallastBytes;
};

TEST_F(BallastTest, TakesItsRoomOnTheDisk) {
  Open().Restore();
  EXPECT_GE(Blocks(), kBallastBytes);
}

TEST_F(BallastTest, IsGivenUpWhereTheDiskIsFullAndOnlyThere) {
  Open().Restore();
  Open().ReleaseWhenFull();
  EXPECT_GE(Blocks(), kBallastBytes);
  available_ = 2 * kBallastBytes - 1;
  Open().ReleaseWhenFull();
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(BallastTest, ComesBackOnceThereIsRoomForMore) {
  Ballast ballast = Open();
  available_ = 4 * kBallastBytes - 1;
  ballast.Restore();
  EXPECT_FALSE(std::filesystem::exists(file_));
  available_ = 4 * kBallastBytes;
  ballast.Restore();
  EXPECT_GE(Blocks(), kBallastBytes);
}

// Limits the size of the files that this process writes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(uint64_t bytes) {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST_F(BallastTest, WhereItCannotBeMadeWholeNothingIsLeftOfIt) {
  Ballast ballast = Open();
  for (int round = 0; round < 2; ++round) {
    ::testing::internal::CaptureStderr();
    {
      const FileSizeLimit limit(kBallastBytes / 2);
      ballast.Restore();
      EXPECT_FALSE(std::filesystem::exists(file_));
      ballast.Restore();
    }
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(log.find("ballast_not_made"), log.npos);
    EXPECT_EQ(log.find("ballast_not_made"), log.rfind("ballast_not_made"));
    ballast.Restore();
    EXPECT_GE(Blocks(), kBallastBytes);
    available_ = 0;
    ballast.ReleaseWhenFull();
    available_ = 100 * kBallastBytes;
  }
}

TEST_F(BallastTest, OneThatACrashHasLeftHalfMadeIsMadeWhole) {
  std::ofstream(file_) << "half";
  Open().Restore();
  EXPECT_GE(Blocks(), kBallastBytes);
}

}  // namespace
}  // namespace dp::server
