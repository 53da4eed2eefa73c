#include "worker/agent/file_glimpse.h"

#include "gtest/gtest.h"

namespace dp::worker {
namespace {

// A file whose content changes from one second to the next.
class FileGlimpseTest : public testing::Test {
 protected:
  // Modified at `second`, and seen `after` that.
  static FileGlimpse Seen(const std::string& content, int second,
                          absl::Duration after = absl::ZeroDuration()) {
    const size_t tail = std::min<size_t>(content.size(), FileGlimpse::kTailBytesMax);
    const absl::Time modified = absl::FromUnixSeconds(second);
    return {modified + after, content.size(), modified, content.substr(content.size() - tail)};
  }
  static FileChange Change(const FileGlimpse& before, const std::string& now, int second,
                           absl::Duration after = absl::ZeroDuration()) {
    const size_t begin = std::min<size_t>(before.tail_begin(), now.size());
    return ChangeOf(before, Seen(now, second, after), now.substr(begin, before.tail.size()));
  }
  static std::optional<uint64_t> Anew(const std::string& before, const std::string& now,
                                      int second = 1) {
    return Change(Seen(before, 0), now, second).anew;
  }

  const std::string long_ = std::string(999, 'x') + "\n";
};

TEST_F(FileGlimpseTest, AFileThatGrowsIsNotWrittenAnew) {
  EXPECT_EQ(Anew("", ""), std::nullopt);
  EXPECT_EQ(Anew("", "one\n"), std::nullopt);
  EXPECT_EQ(Anew("one\n", "one\ntwo\n"), std::nullopt);
  EXPECT_EQ(Anew(long_, long_ + "two\n"), std::nullopt);
}

TEST_F(FileGlimpseTest, OneThatNobodyTouchesIsNotWrittenAnew) {
  EXPECT_EQ(Anew("one\n", "one\n", 0), std::nullopt);
  EXPECT_EQ(Anew(long_, long_, 0), std::nullopt);
}

TEST_F(FileGlimpseTest, OneThatShrinksIsWrittenAnewAsAWhole) {
  EXPECT_EQ(Anew("one\n", ""), 0u);
  EXPECT_EQ(Anew(long_, "one\n"), 0u);
}

TEST_F(FileGlimpseTest, AnotherLineInThePlaceOfTheLastIsSeenThoughTheSizeIsTheSame) {
  EXPECT_EQ(Anew("step 1\n", "step 2\n"), 0u);
  EXPECT_EQ(Anew("one\nstep 1\n", "one\nstep 2\nthree\n"), 4u);
}

TEST_F(FileGlimpseTest, TheSameLineOnceMoreIsSeenByItsTimeOnceAWriteHasSettled) {
  const FileChange first = Change(Seen("step\n", 0), "step\n", 1);
  EXPECT_EQ(first.anew, std::nullopt);
  const FileChange soon = Change(first.glimpse, "step\n", 1, absl::Milliseconds(9));
  EXPECT_EQ(soon.anew, std::nullopt);
  const FileChange settled = Change(soon.glimpse, "step\n", 1, absl::Milliseconds(10));
  EXPECT_EQ(settled.anew, 0u);
  EXPECT_EQ(Change(settled.glimpse, "step\n", 1, absl::Seconds(9)).anew, std::nullopt);
}

TEST_F(FileGlimpseTest, AWriteWhoseTimeIsSeenBeforeItsSizeIsNotTakenForAnEmptying) {
  const FileChange first = Change(Seen("step\n", 0), "step\n", 1);
  const FileChange written = Change(first.glimpse, "step\nstep\n", 1, absl::Seconds(1));
  EXPECT_EQ(written.anew, std::nullopt);
  EXPECT_EQ(Change(written.glimpse, "step\nstep\n", 1, absl::Seconds(2)).anew, std::nullopt);
}

TEST_F(FileGlimpseTest, TheLastBytesOfALongerFileCount) {
  const std::string other(1500, 'y');
  EXPECT_EQ(Anew(long_, other), 1000 - FileGlimpse::kTailBytesMax);
  EXPECT_EQ(Anew(long_, long_), std::nullopt);  // a hole was made in its front
}

}  // namespace
}  // namespace dp::worker
