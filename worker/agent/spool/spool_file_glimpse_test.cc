#include "worker/agent/spool/spool_file.h"

#include "gtest/gtest.h"

namespace dp::worker {
namespace {

class FileGlimpseTest : public testing::Test {
 protected:
  static bool Emptied(const std::string& before, const std::string& now) {
    const auto head = [](const std::string& content) {
      return content.substr(0, FileGlimpse::kHeadBytesMax);
    };
    return WasEmptied({before.size(), absl::UnixEpoch(), head(before)}, now.size(), head(now));
  }

  const std::string long_ = std::string(999, 'x') + "\n";
};

TEST_F(FileGlimpseTest, AFileThatGrowsOrStaysWasNotEmptied) {
  EXPECT_FALSE(Emptied("", ""));
  EXPECT_FALSE(Emptied("", "one\n"));
  EXPECT_FALSE(Emptied("one\n", "one\n"));
  EXPECT_FALSE(Emptied("one\n", "one\ntwo\n"));
  EXPECT_FALSE(Emptied("one\n", "one\n" + long_));
  EXPECT_FALSE(Emptied(long_, long_ + "two\n"));
}

TEST_F(FileGlimpseTest, AFileThatIsShorterWasEmptied) {
  EXPECT_TRUE(Emptied("one\n", ""));
  EXPECT_TRUE(Emptied("one\none\n", "one\n"));
  EXPECT_TRUE(Emptied(long_, long_.substr(1)));
}

TEST_F(FileGlimpseTest, AFileThatBeginsWithOtherBytesWasEmptied) {
  EXPECT_TRUE(Emptied("step 1\n", "step 2\n"));
  EXPECT_TRUE(Emptied("step 1\n", "step 2\nstep 3\n"));
  EXPECT_TRUE(Emptied(long_, "y" + long_));
}

TEST_F(FileGlimpseTest, AFileThatIsEmptiedAgainAndAgainIsLookedAtLessOften) {
  const absl::Time at = absl::UnixEpoch();
  EXPECT_EQ(NextGlimpse(0, at), at);
  EXPECT_EQ(NextGlimpse(1, at), at + absl::Milliseconds(100));
  EXPECT_EQ(NextGlimpse(20, at), at + absl::Seconds(2));
  EXPECT_EQ(NextGlimpse(1'000'000, at), at + absl::Minutes(1));
}

}  // namespace
}  // namespace dp::worker
