#include "worker/agent/spool/spool_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
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
  // Like `echo TEXT > /dev/stdout` in a rank.
  void WriteAnew(const std::string& text) { std::ofstream(path_) << text; }
  // All that is sent from now on: the data, and '#' for each missing byte.
  std::string Sent(SpoolFile& file) {
    std::string sent;
    for (;;) {
      const SpoolFile::Piece piece = file.Next(kMiB, /*ended=*/true);
      if (piece.empty()) return sent;
      sent += piece.data + std::string(piece.cut_bytes, '#');
      EXPECT_EQ(piece.emptied, piece.cut_bytes > 0);
      file.Acknowledge(piece.offset + piece.data.size() + piece.cut_bytes);
    }
  }
  void WriteLines(size_t bytes) {
    std::string text;
    while (text.size() < bytes) absl::StrAppend(&text, "line at ", text.size(), "\n");
    Write(text);
  }
  uint64_t BytesInFile() const { return std::filesystem::file_size(path_); }
  uint64_t BytesOnDisk() const {
    struct stat info {};
    EXPECT_EQ(stat(path_.c_str(), &info), 0);
    return static_cast<uint64_t>(info.st_blocks) * 512;
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_.path() + "/0.out";
  SpoolFile file_{(Write(""), path_), /*left_over=*/false};
};

// The kernel would let whoever opens the file wait for up to 45 s.
TEST_F(SpoolFileTest, NobodyWaitsForALeaseOfTheRanksUser) {
  const std::string leased = directory_.path() + "/1.out";
  std::ofstream(leased) << "one\n";
  const auto before = signal(SIGIO, SIG_IGN);
  FileDescriptor lease(open(leased.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(fcntl(lease.get(), F_SETLEASE, F_WRLCK), 0);
  SpoolFile file(leased, /*left_over=*/true);
  EXPECT_FALSE(file.trouble().ok());
  lease.Close();
  file.Look(Second(1));
  EXPECT_EQ(Sent(file), "one\n");
  signal(SIGIO, before);
}

TEST_F(SpoolFileTest, WhatIsFoundIsSentFromWhereTheCoordinatorIs) {
  Write("one\ntwo\n");
  EXPECT_TRUE(file_.Next(kMiB, false).empty());  // before the first look
  file_.Look(Second(1));
  EXPECT_EQ(file_.Next(kMiB, false).data, "one\ntwo\n");
  file_.Acknowledge(4);
  EXPECT_EQ(file_.Next(kMiB, false).data, "two\n");
  EXPECT_FALSE(file_.sent());
  file_.Acknowledge(8);
  EXPECT_TRUE(file_.sent());
  file_.Acknowledge(0);  // the coordinator has lost what it had
  EXPECT_EQ(file_.Next(kMiB, false).data, "one\ntwo\n");
}

TEST_F(SpoolFileTest, AnUnfinishedLineWaitsForTheEnd) {
  Write("one\ntw");
  file_.Look(Second(1));
  EXPECT_EQ(file_.Next(kMiB, false).data, "one\n");
  EXPECT_EQ(file_.Next(kMiB, true).data, "one\ntw");
}

class SpoolFileOfSecretsTest : public SpoolFileTest {
 protected:
  static constexpr char kToken[] = "hf_abcdefgh";

  // All that is sent, in pieces of at most `bytes_max`.
  std::string SentInPieces(size_t bytes_max) {
    std::string sent;
    for (;;) {
      const SpoolFile::Piece piece = secrets_.Next(bytes_max, /*ended=*/true);
      if (piece.empty()) return sent;
      sent += piece.data;
      secrets_.Acknowledge(piece.offset + piece.data.size());
    }
  }

  SpoolFile secrets_{path_, /*left_over=*/false, SpoolFile::PunchHole,
                     std::make_shared<SecretMask>(std::vector<std::string>{kToken})};
};

TEST_F(SpoolFileOfSecretsTest, ASecretIsHiddenAndOffsetsStay) {
  Write("a hf_abcdefgh b\nc\n");
  secrets_.Look(Second(1));
  EXPECT_EQ(secrets_.Next(kMiB, false).data, "a *********** b\nc\n");
  secrets_.Acknowledge(16);
  EXPECT_EQ(secrets_.Next(kMiB, false).data, "c\n");
}

// A line so long leaves in pieces.
TEST_F(SpoolFileOfSecretsTest, WhereverAPieceEndsTheSecretIsHidden) {
  const std::string before(kWholeLineBytesMax, 'x'), after(kWholeLineBytesMax, 'y');
  Write(before + kToken + after);
  secrets_.Look(Second(1));
  for (size_t more = 0; more <= sizeof(kToken); ++more) {
    EXPECT_EQ(SentInPieces(kWholeLineBytesMax + more), before + "***********" + after) << more;
    secrets_.Acknowledge(0);
  }
}

// A progress bar leaves as far as it goes.
TEST_F(SpoolFileOfSecretsTest, AnEndThatMayBecomeASecretWaits) {
  Write("\r10% hf_abc");
  secrets_.Look(Second(1));
  EXPECT_EQ(secrets_.Next(kMiB, false).data, "\r10% ");
  secrets_.Acknowledge(5);
  EXPECT_TRUE(secrets_.Next(kMiB, false).empty());
  EXPECT_FALSE(secrets_.sent());
  Write("defgh\r");
  secrets_.Look(Second(2));
  EXPECT_EQ(secrets_.Next(kMiB, false).data, "***********\r");
}

TEST_F(SpoolFileOfSecretsTest, AnEndThatBecomesNoneIsSentAsItIs) {
  Write("\r10% hf_abc");
  secrets_.Look(Second(1));
  secrets_.Acknowledge(5);
  Write("x\r");
  secrets_.Look(Second(2));
  EXPECT_EQ(secrets_.Next(kMiB, false).data, "hf_abcx\r");
}

TEST_F(SpoolFileOfSecretsTest, AtTheEndOfTheRankNothingWaitsAndAPartOfASecretIsHidden) {
  Write("token hf_abc");
  secrets_.Look(Second(1));
  EXPECT_EQ(secrets_.Next(kMiB, true).data, "token ******");
}

// The first part of the secret was dropped.
TEST_F(SpoolFileOfSecretsTest, ThePartOfASecretBehindDroppedBytesIsHidden) {
  constexpr size_t kUnit = 64 << 10;
  Write(std::string(kUnit - 3, 'x') + "hf_abcdefgh " + std::string(kUnit, 'y'));
  secrets_.Look(Second(1));
  ASSERT_TRUE(secrets_.GiveUpBefore(kUnit).ok());
  const SpoolFile::Piece cut = secrets_.Next(kMiB, true);
  ASSERT_EQ(cut.cut_bytes, kUnit);
  secrets_.Acknowledge(kUnit);
  EXPECT_EQ(secrets_.Next(kMiB, true).data.substr(0, 12), "******** yyy");
}

TEST_F(SpoolFileTest, APieceSaysWhenItsBytesWereFound) {
  Write("one\n");
  file_.Look(Second(1));
  Write("two\n");
  file_.Look(Second(2));
  file_.Look(Second(3));  // nothing new
  EXPECT_THAT(file_.Next(kMiB, false).times,
              ElementsAre(LogTime{0, Second(1)}, LogTime{4, Second(2)}));
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

// A disk on which making a hole takes long. The tests say what happens meanwhile.
class SlowHoleTest : public SpoolFileTest {
 protected:
  SlowHoleTest() {
    WriteLines(kMiB);
    slow_.Look(Second(1));
  }

  std::function<void()> meanwhile_ = [] {};
  std::function<void()> at_its_end_ = [] {};
  int error_ = 0;
  SpoolFile slow_{path_, /*left_over=*/false, [this](const FileDescriptor& file, uint64_t end) {
                    meanwhile_();
                    const int error = error_ != 0 ? error_ : SpoolFile::PunchHole(file, end);
                    at_its_end_();
                    return error;
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

TEST_F(SlowHoleTest, LinesThatARankWritesMeanwhileAreNotTakenForAnEmptying) {
  at_its_end_ = [&] {
    Write("more\n");
    slow_.Look(Second(2));
  };
  ASSERT_TRUE(slow_.GiveUpBefore(kMiB / 2).ok());
  slow_.Look(Second(3));
  EXPECT_FALSE(slow_.Next(kMiB, false).emptied);
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

TEST_F(SpoolFileTest, WhatARankWritesAfterItHasEmptiedItsFileIsSentBehindAMark) {
  Write("one\n");
  file_.Look(Second(1));
  EXPECT_EQ(Sent(file_), "one\n");
  WriteAnew("2\n");
  file_.Look(Second(2));
  EXPECT_EQ(Sent(file_), "#2\n");
  WriteAnew("3\n");  // of the same size
  file_.Look(Second(3));
  EXPECT_EQ(Sent(file_), "#3\n");
  Write("four\n");
  file_.Look(Second(4));
  EXPECT_EQ(Sent(file_), "four\n");
}

TEST_F(SpoolFileTest, TheMarkOfAnEmptiedFileCountsWhatWasNotSent) {
  Write("one\ntwo\n");
  file_.Look(Second(1));
  file_.Acknowledge(4);
  WriteAnew("");
  file_.Look(Second(2));
  EXPECT_EQ(Sent(file_), "#####");  // "two", its newline, and one for unseen bytes
  EXPECT_TRUE(file_.sent());
}

TEST_F(SpoolFileTest, LinesAfterAnEmptyingHaveTheirOwnTime) {
  Write("one\n");
  file_.Look(Second(1));
  EXPECT_EQ(Sent(file_), "one\n");
  WriteAnew("2\n");
  file_.Look(Second(2));
  const SpoolFile::Piece mark = file_.Next(kMiB, false);
  EXPECT_THAT(mark.times, ElementsAre(LogTime{4, Second(2)}));
  file_.Acknowledge(5);
  EXPECT_THAT(file_.Next(kMiB, false).times, ElementsAre(LogTime{5, Second(2)}));
}

TEST_F(SpoolFileTest, AFileThatBeginsWithOtherBytesIsSentAnewAsAWhole) {
  WriteLines(kMiB);
  file_.Look(Second(1));
  (void)Sent(file_);
  const std::string anew(2 * kMiB, 'x');
  WriteAnew(anew);
  file_.Look(Second(2));
  EXPECT_TRUE(Sent(file_) == "#" + anew);
}

TEST_F(SpoolFileTest, AFileThatIsEmptiedAgainAtOnceIsLookedAtLater) {
  Write("one\n");
  file_.Look(Second(1));
  WriteAnew("2\n");
  file_.Look(Second(2));
  EXPECT_EQ(Sent(file_), "#####2\n");
  WriteAnew("3\n");
  file_.Look(Second(2) + absl::Milliseconds(99));
  EXPECT_EQ(Sent(file_), "");
  file_.Look(Second(2) + absl::Milliseconds(100));
  EXPECT_EQ(Sent(file_), "#3\n");
  WriteAnew("4\n");
  file_.End(Second(2) + absl::Milliseconds(101));
  EXPECT_EQ(Sent(file_), "#4\n");
}

TEST_F(SpoolFileTest, AHoleOfItsOwnIsNotTakenForAnEmptying) {
  WriteLines(kMiB);
  file_.Look(Second(1));
  file_.Acknowledge(kMiB);
  ASSERT_TRUE(file_.GiveUpBefore(kMiB / 2).ok());
  Write("more\n");
  file_.Look(Second(2));
  EXPECT_FALSE(file_.Next(kMiB, false).emptied);
  WriteAnew("anew\n");
  file_.Look(Second(3));
  EXPECT_TRUE(file_.Next(kMiB, false).emptied);
}

TEST_F(SpoolFileTest, AShiftThatCannotBeRecordedIsTriedAgainAndNothingWaitsForIt) {
  const std::string record = path_ + SpoolFile::kShiftSuffix;
  std::filesystem::create_directory(record);
  Write("one\n");
  file_.Look(Second(1));
  EXPECT_EQ(Sent(file_), "one\n");
  WriteAnew("two\n");
  file_.Look(Second(2));
  EXPECT_EQ(Sent(file_), "#two\n");
  std::filesystem::remove(record);
  file_.Look(Second(3));
  SpoolFile next(path_, /*left_over=*/true);
  next.Acknowledge(5);
  EXPECT_EQ(Sent(next), "two\n");
}

TEST_F(SpoolFileTest, ADamagedRecordOfAShiftIsNone) {
  Write("one\n");
  for (const char* damaged : {"18446744073709551615", "99999999999999999999", "-1", "4x", "x"}) {
    std::ofstream(path_ + SpoolFile::kShiftSuffix) << damaged;
    SpoolFile next(path_, /*left_over=*/true);
    EXPECT_EQ(next.use().size, 4u) << damaged;
    EXPECT_EQ(Sent(next), "one\n") << damaged;
  }
}

TEST_F(SpoolFileTest, AnAcknowledgementBeyondTheEndShowsThatTheFileWasEmptied) {
  Write("two\n");
  SpoolFile next(path_, /*left_over=*/true);
  next.Acknowledge(1000);  // sent by an earlier daemon
  EXPECT_FALSE(next.sent());
  EXPECT_EQ(Sent(next), "#two\n");
  EXPECT_EQ(next.use().acknowledged, 1005u);
  EXPECT_TRUE(next.sent());
}

TEST_F(SpoolFileTest, TheHoleThatAnEmptyingLeavesInFrontOfAnotherWriterIsNotSent) {
  WriteLines(kMiB);
  file_.Look(Second(1));
  (void)Sent(file_);
  const uint64_t end = file_.use().size;
  WriteAnew("");
  std::fstream where_it_was(path_, std::ios::in | std::ios::out);
  where_it_was.seekp(static_cast<std::streamoff>(end) - 10);
  where_it_was << "last\n" << std::flush;
  file_.Look(Second(2));
  const std::string sent = Sent(file_);
  EXPECT_EQ(sent.find_first_not_of('#'), sent.size() - 5);
  EXPECT_EQ(sent.substr(sent.size() - 5), "last\n");
}

TEST_F(SpoolFileTest, AFileThatWasEmptiedIsKeptWithinItsBound) {
  Write("one\n");
  file_.Look(Second(1));
  WriteAnew("");
  WriteLines(kMiB);
  file_.Look(Second(2));
  const SpoolUse use = file_.use();
  EXPECT_EQ(use.size - use.begin, BytesInFile());
  ASSERT_TRUE(file_.GiveUpBefore(use.begin + kMiB / 2).ok());
  EXPECT_LE(BytesOnDisk(), BytesInFile() - kMiB / 2 + 4096);
  EXPECT_EQ(file_.use().begin, use.begin + kMiB / 2);
}

TEST_F(SpoolFileTest, TheNextLifeKnowsThatAFileWasEmptied) {
  Write("one\n");
  file_.Look(Second(1));
  EXPECT_EQ(Sent(file_), "one\n");
  WriteAnew("two\n");
  Write("three\n");
  file_.Look(Second(2));
  SpoolFile next(path_, /*left_over=*/true);
  next.Acknowledge(5 + 4);  // the mark and "two"
  EXPECT_EQ(Sent(next), "three\n");
  next.Acknowledge(0);
  EXPECT_EQ(Sent(next), "#####two\nthree\n");
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
