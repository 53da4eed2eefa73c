#include "worker/agent/incarnation_record.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/state_dir.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class IncarnationRecordTest : public testing::Test {
 protected:
  IncarnationRecord Open(const std::string& boot = "boot") { return {directory_.path(), boot}; }

  TemporaryDirectory directory_;
  const std::string path_ = directory_.path() + kIncarnationsName;
};

TEST_F(IncarnationRecordTest, TheNextDaemonFindsWhatTheOneBeforeRegistered) {
  IncarnationRecord first = Open();
  EXPECT_THAT(first.recorded(), IsEmpty());
  ASSERT_TRUE(first.Add(Incarnation(5)).ok());
  ASSERT_TRUE(first.Add(Incarnation(~uint64_t{0})).ok());
  EXPECT_THAT(Open().recorded(), ElementsAre(Incarnation(5), Incarnation(~uint64_t{0})));
}

TEST_F(IncarnationRecordTest, OnlyItsOwnerMayReadIt) {
  ASSERT_TRUE(Open().Add(Incarnation(5)).ok());
  struct stat file {};
  ASSERT_EQ(stat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
}

TEST_F(IncarnationRecordTest, ThoseOfAnotherBootAreNotProvenDead) {
  ASSERT_TRUE(Open().Add(Incarnation(5)).ok());
  EXPECT_THAT(Open("another").recorded(), IsEmpty());
}

TEST_F(IncarnationRecordTest, WhereTheBootIsNotKnownNothingIsProven) {
  IncarnationRecord unknown = Open("");
  ASSERT_TRUE(unknown.Add(Incarnation(5)).ok());
  EXPECT_THAT(Open("").recorded(), IsEmpty());
}

TEST_F(IncarnationRecordTest, TheOldestAreDropped) {
  for (uint64_t i = 1; i <= IncarnationRecord::kKept + 2; ++i) {
    ASSERT_TRUE(Open().Add(Incarnation(i)).ok());
  }
  EXPECT_EQ(Open().recorded().size(), IncarnationRecord::kKept);
  EXPECT_EQ(Open().recorded().front(), Incarnation(3));
}

TEST_F(IncarnationRecordTest, WhatIsNoRecordIsIgnored) {
  std::ofstream(path_) << "boot x\nboot";
  EXPECT_THAT(Open().recorded(), IsEmpty());
}

TEST_F(IncarnationRecordTest, AFileThatCannotBeWrittenIsNamed) {
  ASSERT_EQ(mkdir((path_ + ".new").c_str(), 0700), 0);
  EXPECT_THAT(std::string(Open().Add(Incarnation(5)).message()), HasSubstr(path_));
}

TEST_F(IncarnationRecordTest, AFileThatCannotBeReplacedLeavesNothingBeside) {
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  EXPECT_FALSE(Open().Add(Incarnation(5)).ok());
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

// Limits the size of this process's files, as a full disk does.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    DP_CHECK(getrlimit(RLIMIT_FSIZE, &before_) == 0);
    const rlimit small{bytes, before_.rlim_max};
    DP_CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
  }
  ~SmallFiles() {
    DP_CHECK(setrlimit(RLIMIT_FSIZE, &before_) == 0);
    signal(SIGXFSZ, SIG_DFL);
  }

 private:
  rlimit before_{};
};

TEST_F(IncarnationRecordTest, OnAFullDiskTheRecordStaysAsItWasAndTheReasonIsTold) {
  ASSERT_TRUE(Open().Add(Incarnation(5)).ok());
  absl::Status full;
  {
    const SmallFiles small(10);
    full = Open().Add(Incarnation(6));
  }
  EXPECT_THAT(std::string(full.message()), HasSubstr("the disk is full"));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
  EXPECT_THAT(Open().recorded(), ElementsAre(Incarnation(5)));
}

}  // namespace
}  // namespace dp::worker
