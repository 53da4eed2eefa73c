#include "worker/agent/processes/exit_record.h"

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

class ExitRecordTest : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  const std::string path_ = directory_.path() + "/0.exit";
};

TEST_F(ExitRecordTest, WhatWasWrittenIsRead) {
  const ExitRecord code{.exit = {Exit::How::kCode, 33}, .stopped = true, .at_unix_nanos = 1};
  const ExitRecord signal{.exit = {Exit::How::kSignal, 9}, .oom = true, .at_unix_nanos = 1LL << 60};
  for (const ExitRecord& record : {code, signal}) {
    WriteExitRecord(path_, record);
    EXPECT_EQ(ReadExitRecord(path_), record);
  }
}

TEST_F(ExitRecordTest, AFileThatIsAbsentOrSaysSomethingElseIsNoRecord) {
  EXPECT_EQ(ReadExitRecord(path_), std::nullopt);
  for (const char* text : {"", "code", "code 0", "code 0 0 0", "done 0 0 0 1", "code x 0 0 1",
                           "code 0 0 0 17", "code 0 0 0 17\n0", "code +0 0 0 17\n"}) {
    std::ofstream(path_) << text << std::flush;
    EXPECT_EQ(ReadExitRecord(path_), std::nullopt) << text;
  }
}

TEST_F(ExitRecordTest, AWriteThatFailsLeavesNoFile) {
  std::filesystem::create_directory(path_);
  WriteExitRecord(path_, {});
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

TEST_F(ExitRecordTest, RemovingItAlsoRemovesWhatAWriteHasLeft) {
  WriteExitRecord(path_, {});
  std::ofstream(path_ + ".new") << "co" << std::flush;
  RemoveExitRecord(path_);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

}  // namespace
}  // namespace dp::worker
