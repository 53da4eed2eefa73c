#include "worker/agent/spool_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

using testing::ElementsAre;

constexpr size_t kMiB = 1 << 20;

size_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

absl::Time Second(int second) { return absl::FromUnixSeconds(second); }

class SpoolFileTest : public testing::Test {
 protected:
  SpoolFileTest() { Write(""); }
  void Write(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }
  void WriteLines(size_t bytes) {
    std::string text;
    while (text.size() < bytes) absl::StrAppend(&text, "line at ", text.size(), "\n");
    Write(text);
  }
  uint64_t BytesOnDisk() const {
    struct stat info {};
    EXPECT_EQ(stat(path_.c_str(), &info), 0);
    return static_cast<uint64_t>(info.st_blocks) * 512;
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_.path() + "/0.out";
  SpoolFile file_{(Write(""), path_), /*left_over=*/false};
};

TEST_F(SpoolFileTest, WhatIsFoundIsSentFromWhereTheCoordinatorIs) {
  Write("one\ntwo\n");
  EXPECT_TRUE(file_.Next(kMiB, false).empty());  // nobody has looked
  file_.Look(Second(1));
  EXPECT_EQ(file_.Next(kMiB, false).data, "one\ntwo\n");
  file_.Acknowledge(4);
  EXPECT_EQ(file_.Next(kMiB, false).data, "two\n");
  EXPECT_FALSE(file_.sent());
  file_.Acknowledge(8);
  EXPECT_TRUE(file_.sent());
  file_.Acknowledge(0);  // it has lost what it had
  EXPECT_EQ(file_.Next(kMiB, false).data, "one\ntwo\n");
}

TEST_F(SpoolFileTest, AnUnfinishedLineWaitsForTheEnd) {
  Write("one\ntw");
  file_.Look(Second(1));
  EXPECT_EQ(file_.Next(kMiB, false).data, "one\n");
  EXPECT_EQ(file_.Next(kMiB, true).data, "one\ntw");
}

TEST_F(SpoolFileTest, APieceSaysWhenItsBytesWereFound) {
  Write("one\n");
  file_.Look(Second(1));
  Write("two\n");
  file_.Look(Second(2));
  file_.Look(Second(3));  // nothing new
  EXPECT_THAT(file_.Next(kMiB, false).times,
              ElementsAre(FoundTime{0, Second(1)}, FoundTime{4, Second(2)}));
}

TEST_F(SpoolFileTest, WhatWasGivenUpTakesNoRoomAndIsTold) {
  WriteLines(kMiB);
  file_.Look(Second(1));
  const uint64_t size = file_.use().size;
  ASSERT_TRUE(file_.GiveUpBefore(kMiB / 2).ok());
  EXPECT_LE(BytesOnDisk(), size - kMiB / 2 + 4096);
  const SpoolFile::Piece cut = file_.Next(2 * kMiB, false);
  EXPECT_GE(cut.cut_bytes, kMiB / 2);
  EXPECT_EQ(cut.times.front().time, Second(1));
  file_.Acknowledge(cut.cut_bytes);
  const SpoolFile::Piece rest = file_.Next(2 * kMiB, false);
  EXPECT_EQ(rest.data.substr(0, rest.data.find('\n')), absl::StrCat("line at ", cut.cut_bytes));
  EXPECT_EQ(rest.offset + rest.data.size(), size);
}

TEST_F(SpoolFileTest, WhatIsGivenUpBeforeItWasToldIsToldAsOne) {
  WriteLines(kMiB);
  file_.Look(Second(1));
  const std::string first = "line at 0\n";
  file_.Acknowledge(first.size());
  ASSERT_TRUE(file_.GiveUpBefore(kMiB / 4).ok());
  EXPECT_LT(file_.Next(kMiB, false).cut_bytes, kMiB / 2);
  ASSERT_TRUE(file_.GiveUpBefore(kMiB / 2).ok());
  const SpoolFile::Piece cut = file_.Next(kMiB, false);
  EXPECT_EQ(cut.offset, first.size());
  EXPECT_GE(cut.cut_bytes, kMiB / 2 - first.size());
  file_.Acknowledge(cut.offset + cut.cut_bytes);
  EXPECT_EQ(file_.Next(kMiB, false).cut_bytes, 0u);
}

// A disk on which making a hole takes its time: what is done meanwhile.
class SlowHoleTest : public SpoolFileTest {
 protected:
  SlowHoleTest() {
    WriteLines(kMiB);
    slow_.Look(Second(1));
  }

  std::function<void()> meanwhile_;
  int error_ = 0;
  SpoolFile slow_{path_, /*left_over=*/false, [this](const FileDescriptor& file, uint64_t end) {
                    meanwhile_();
                    return error_ != 0 ? error_ : SpoolFile::PunchHole(file, end);
                  }};
};

TEST_F(SlowHoleTest, WhileItIsMadeNobodyWaitsAndNothingOfItIsRead) {
  SpoolFile::Piece piece{.offset = 1};
  meanwhile_ = [&] {
    piece = slow_.Next(kMiB, false);
    slow_.Look(Second(2));
    EXPECT_EQ(slow_.use().begin, 0u);
  };
  ASSERT_TRUE(slow_.GiveUpBefore(kMiB / 2).ok());
  EXPECT_TRUE(piece.empty());
  EXPECT_GE(slow_.Next(kMiB, false).cut_bytes, kMiB / 2);
}

TEST_F(SlowHoleTest, WhatLiesBehindItIsSentMeanwhile) {
  std::string sent;
  slow_.Acknowledge(kMiB / 2);
  meanwhile_ = [&] { sent = slow_.Next(kMiB, false).data; };
  ASSERT_TRUE(slow_.GiveUpBefore(kMiB / 2).ok());
  EXPECT_EQ(sent, slow_.Next(kMiB, false).data);
  EXPECT_GT(sent.size(), kMiB / 4);
}

TEST_F(SlowHoleTest, OneThatCannotBeMadeTakesNothing) {
  meanwhile_ = [] {};
  error_ = EIO;
  EXPECT_FALSE(slow_.GiveUpBefore(kMiB / 2).ok());
  EXPECT_EQ(slow_.Next(kMiB, false).data.substr(0, 10), "line at 0\n");
}

TEST_F(SpoolFileTest, OfWhatIsStoredNothingIsMissing) {
  WriteLines(kMiB);
  file_.Look(Second(1));
  const std::string first = file_.Next(3 * kMiB / 4, false).data;
  file_.Acknowledge(first.size());
  ASSERT_TRUE(file_.GiveUpBefore(kMiB / 2).ok());
  EXPECT_EQ(file_.Next(kMiB, false).cut_bytes, 0u);
  EXPECT_EQ(file_.Next(kMiB, false).offset, first.size());
}

TEST_F(SpoolFileTest, TheNextLifeKnowsWhatWasGivenUp) {
  WriteLines(kMiB);
  file_.Look(Second(1));
  ASSERT_TRUE(file_.GiveUpBefore(kMiB / 2).ok());
  SpoolFile next(path_, /*left_over=*/true);
  EXPECT_EQ(next.use().begin, kMiB / 2);
  EXPECT_EQ(next.Next(kMiB, true).cut_bytes, file_.Next(kMiB, true).cut_bytes);
}

TEST_F(SpoolFileTest, AFileThatIsNotThereIsEmpty) {
  SpoolFile none(path_ + "x", /*left_over=*/true);
  none.Look(Second(1));
  EXPECT_TRUE(none.sent());
  EXPECT_TRUE(none.Next(kMiB, true).empty());
}

TEST_F(SpoolFileTest, AFileThatCannotBeOpenedIsNotSentButTriedAgain) {
  const std::string path = path_ + "x";
  std::filesystem::create_symlink(path, path);  // a loop
  SpoolFile file(path, /*left_over=*/true);
  file.Look(Second(1));
  EXPECT_FALSE(file.sent());
  EXPECT_EQ(file.trouble(), absl::InternalError(absl::StrCat(
                                "spool file ", path, ": Too many levels of symbolic links")));
  std::filesystem::remove(path);
  std::ofstream(path) << "one\n";
  file.Look(Second(2));
  EXPECT_TRUE(file.trouble().ok());
  EXPECT_EQ(file.Next(kMiB, true).data, "one\n");
  EXPECT_FALSE(file.sent());
}

TEST_F(SpoolFileTest, AFileThatHasEndedKeepsNoDescriptorAndIsSent) {
  const size_t before = OpenDescriptors();
  Write("one\ntwo");
  file_.End(Second(1));
  EXPECT_EQ(OpenDescriptors(), before - 1);
  EXPECT_EQ(file_.Next(kMiB, true).data, "one\ntwo");
  SpoolFile left_over(path_, /*left_over=*/true);
  EXPECT_EQ(left_over.Next(kMiB, true).data, "one\ntwo");
  EXPECT_EQ(OpenDescriptors(), before - 1);
}

TEST_F(SpoolFileTest, AnotherFileInThePlaceOfOneThatHasEndedIsNotTouched) {
  Write("one\n");
  file_.End(Second(1));
  const std::string another = path_ + "y";
  std::ofstream(another) << "two\n";
  std::filesystem::rename(another, path_);
  EXPECT_TRUE(file_.Next(kMiB, true).empty());
  EXPECT_TRUE(file_.sent());
}

}  // namespace
}  // namespace dp::worker
