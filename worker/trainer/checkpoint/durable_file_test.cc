#include "worker/trainer/checkpoint/durable_file.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::trainer {
namespace {

using ::testing::HasSubstr;

std::string ReadFile(const std::string& path) { return *ReadWholeFile(path, 1000); }

TEST(WriteFileAtomicallyTest, ReplacesTheFileAndLeavesNoTemporary) {
  const std::string path = ::testing::TempDir() + "weights.safetensors";
  ASSERT_TRUE(WriteFileAtomically(path, "old contents").ok());
  ASSERT_TRUE(WriteFileAtomically(path, "new").ok());
  EXPECT_EQ(ReadFile(path).c_str(), std::string("new"));
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST(WriteFileAtomicallyTest, ADirectoryThatIsMissingIsNamed) {
  const absl::Status status = WriteFileAtomically("/nonexistent/weights", "x");
  EXPECT_THAT(status.message(), HasSubstr("/nonexistent/weights"));
}

TEST(CreateDirectoriesDurablyTest, MakesAllThatAreMissing) {
  const std::string top = ::testing::TempDir() + "durable_directories";
  std::filesystem::remove_all(top);
  ASSERT_TRUE(CreateDirectoriesDurably(top + "/a/b").ok());
  EXPECT_TRUE(std::filesystem::is_directory(top + "/a/b"));
  EXPECT_TRUE(CreateDirectoriesDurably(top + "/a/b").ok());
  EXPECT_THAT(CreateDirectoriesDurably("/proc/nonexistent/c").message(),
              HasSubstr("cannot create /proc/nonexistent/c"));
}

TEST(CheckWritableTest, LeavesNothingBehindAndRefusesADirectory) {
  const std::string path = ::testing::TempDir() + "fresh.safetensors";
  EXPECT_TRUE(CheckWritable(path).ok());
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
  EXPECT_FALSE(CheckWritable("/nonexistent/weights").ok());
  EXPECT_THAT(CheckWritable(::testing::TempDir()).message(), HasSubstr("is a directory"));
}

TEST(CheckWritableTest, ADirectoryThatIsMissingIsSaidToBe) {
  EXPECT_EQ(CheckWritable("/nonexistent/weights").message(),
            "there is no directory /nonexistent to write /nonexistent/weights into");
}

TEST(WriteFileAtomicallyTest, WhatCannotBeWrittenAsAWholeIsRemoved) {
  const std::string path = ::testing::TempDir() + "too_large";
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit none{0, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &none);
  const absl::Status status = WriteFileAtomically(path, "contents");
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST(CheckWritableTest, WhatIsNoRegularFileIsLeftAlone) {
  const std::string pipe = ::testing::TempDir() + "check_writable.fifo";
  std::remove(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(CheckWritable(pipe).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  std::remove(pipe.c_str());
}

TEST(CheckWritableTest, APathTooLongForTheSystemIsAnError) {
  EXPECT_FALSE(CheckWritable("/tmp/" + std::string(5000, 'x')).ok());
}

TEST(ReadWholeFileTest, AFileThatIsMissingTooLargeOrNoFileIsNamed) {
  EXPECT_EQ(ReadWholeFile("/nonexistent", 9).status().code(), absl::StatusCode::kNotFound);
  const std::string path = ::testing::TempDir() + "ten_bytes";
  ASSERT_TRUE(WriteFileAtomically(path, "0123456789").ok());
  EXPECT_THAT(ReadWholeFile(path, 9).status().message(), HasSubstr("10 bytes, more than 9"));
  EXPECT_THAT(ReadWholeFile(::testing::TempDir(), 9).status().message(),
              HasSubstr("is no regular file"));
}

}  // namespace
}  // namespace dp::trainer
