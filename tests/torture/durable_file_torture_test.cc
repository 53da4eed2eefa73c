#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/testing/scratch_dir.h"
#include "tests/torture/fault_files.h"
#include "worker/trainer/checkpoint/durable_file.h"

// The trainer's files, with a crash or an error at every operation. Each file is there as a whole,
// old or new, and new if its writer reported success.

namespace dp::torture {
namespace {

using How = FaultFiles::How;

const std::string kOld(5000, 'o');
const std::string kNew(7000, 'n');

// Writes a checkpoint into a new folder, then a second one in its place. Returns how many of the
// two were reported as written.
int WriteTwice(const std::string& folder) {
  if (!trainer::CreateDirectoriesDurably(folder + "/runs/1").ok()) return 0;
  int written = 0;
  for (const std::string& content : {kOld, kNew}) {
    if (!trainer::WriteFileAtomically(folder + "/runs/1/weights", content).ok()) return written;
    ++written;
  }
  return written;
}

std::string Content(const std::string& folder) {
  const auto content = trainer::ReadWholeFile(folder + "/runs/1/weights", 10'000);
  return content.ok() ? *content : "";
}

TEST(DurableFileTortureTest, AFileIsThereAsAWholeAfterEveryCrashAndError) {
  int64_t operations = 0;
  {
    const ScratchDir scratch;
    FaultFiles files(scratch.path());
    ASSERT_EQ(WriteTwice(scratch.path()), 2);
    operations = files.operations();
    files.Crash();
    EXPECT_EQ(Content(scratch.path()), kNew);
  }
  ASSERT_GE(operations, 10);
  for (int64_t operation = 0; operation < operations; ++operation) {
    for (const How how : {How::kCrashBefore, How::kCrashAfter, How::kError, How::kFull}) {
      const ScratchDir scratch;
      FaultFiles files(scratch.path());
      files.Restart(FaultFiles::Fault{operation, how});
      const int written = WriteTwice(scratch.path());
      EXPECT_FALSE(files.erred() && written == 2) << "an error went unnoticed";
      files.Restart();
      files.Crash();
      const std::string content = Content(scratch.path());
      const bool whole = content.empty() || content == kOld || content == kNew;
      EXPECT_TRUE(whole) << "operation " << operation << ": " << content.size() << " bytes";
      EXPECT_TRUE(written < 1 || !content.empty()) << "operation " << operation;
      EXPECT_TRUE(written < 2 || content == kNew) << "operation " << operation;
    }
  }
}

// A file system may reuse the inode of the replaced file for the next new file.
TEST(DurableFileTortureTest, AFileThatWasReplacedLendsItsContentToNoOther) {
  const ScratchDir scratch;
  const std::string folder = scratch.path();
  FaultFiles files(folder);
  for (const std::string& content : {kOld, kNew}) {
    ASSERT_TRUE(trainer::WriteFileAtomically(folder + "/weights", content).ok());
  }
  std::ofstream(folder + "/unsynced").close();
  ASSERT_TRUE(trainer::WriteFileAtomically(folder + "/other", kOld).ok());  // syncs the folder
  files.Crash();
  EXPECT_EQ(*trainer::ReadWholeFile(folder + "/unsynced", 10'000), "");
}

// A file written in place, like one of a checkpoint whose folder is renamed later.
TEST(DurableFileTortureTest, WhatIsRenamedIntoPlaceHasItsNameAfterACrash) {
  const ScratchDir scratch;
  const std::string folder = scratch.path();
  FaultFiles files(folder);
  ASSERT_TRUE(trainer::WriteAndSync(folder + "/weights.tmp", kNew).ok());
  ASSERT_TRUE(trainer::RenameDurably(folder + "/weights.tmp", folder + "/weights").ok());
  files.Crash();
  EXPECT_EQ(*trainer::ReadWholeFile(folder + "/weights", 10'000), kNew);
  EXPECT_FALSE(std::filesystem::exists(folder + "/weights.tmp"));
}

}  // namespace
}  // namespace dp::torture
