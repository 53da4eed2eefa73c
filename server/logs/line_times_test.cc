#include "server/logs/line_times.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Entry = LogIndex::Entry;

LogTime FoundAt(uint64_t offset, int second) { return {offset, absl::FromUnixSeconds(second)}; }
Entry Noted(uint64_t offset, uint64_t second) { return {offset, second * 1'000'000}; }

TEST(LineTimesTest, ATimeIsNotedAtTheLineThatBeginsThere) {
  const NewBytes bytes{"one\ntwo\n", 100, /*begins_line=*/true};
  EXPECT_THAT(LineTimes(bytes, {FoundAt(100, 1), FoundAt(104, 2)}, {}),
              ElementsAre(Noted(100, 1), Noted(104, 2)));
}

TEST(LineTimesTest, ATimeWithinALineIsThatOfTheNext) {
  const NewBytes bytes{"one\ntwo\n", 100, /*begins_line=*/true};
  EXPECT_THAT(LineTimes(bytes, {FoundAt(100, 1), FoundAt(102, 2)}, {}),
              ElementsAre(Noted(100, 1), Noted(104, 2)));
  EXPECT_THAT(LineTimes(bytes, {FoundAt(101, 1), FoundAt(103, 2)}, {}), ElementsAre(Noted(104, 2)));
  EXPECT_THAT(LineTimes(bytes, {FoundAt(105, 1)}, {}), IsEmpty());
}

TEST(LineTimesTest, BytesThatGoOnWithALineBeginNone) {
  const NewBytes bytes{"e\ntwo", 100, /*begins_line=*/false};
  EXPECT_THAT(LineTimes(bytes, {FoundAt(100, 1)}, {}), ElementsAre(Noted(102, 1)));
  EXPECT_THAT(LineTimes({"e\n", 100, false}, {FoundAt(100, 1)}, {}), IsEmpty());
}

TEST(LineTimesTest, TimesOfBytesThatAreKnownAlreadyCountFromTheFirstNewOne) {
  EXPECT_THAT(LineTimes({"two\n", 104, true}, {FoundAt(0, 1), FoundAt(50, 2)}, {}),
              ElementsAre(Noted(104, 2)));
}

TEST(LineTimesTest, AClockThatIsSetBackNotesNothing) {
  const NewBytes bytes{"one\ntwo\n", 100, /*begins_line=*/true};
  EXPECT_THAT(LineTimes(bytes, {FoundAt(100, 4), FoundAt(104, 6)}, Noted(90, 5)),
              ElementsAre(Noted(104, 6)));
}

}  // namespace
}  // namespace dp::server
