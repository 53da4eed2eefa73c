#include "store/wire/message_memory.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class MessageMemoryTest : public ::testing::Test {
 protected:
  // Claims the whole rest of a request. Returns the claim's ticket; 0: it was granted at once.
  MessageMemory::Ticket Take(size_t bytes, int name) { return Take({bytes, bytes}, name).waits_as; }
  MessageMemory::Taken Take(const MessageMemory::Claim& claim, int name) {
    return memory_.Take(claim, [this, name] { granted_.push_back(name); });
  }

  MessageMemory memory_{100};  // 50 of them are the reserve
  std::vector<int> granted_;
};

TEST_F(MessageMemoryTest, ClaimsThatFitAreTakenAtOnce) {
  EXPECT_EQ(Take(60, 1), 0u);
  EXPECT_EQ(Take(40, 2), 0u);
  EXPECT_EQ(memory_.taken(), 100u);
  EXPECT_FALSE(memory_.short_of_memory());
  EXPECT_THAT(granted_, IsEmpty());
}

TEST_F(MessageMemoryTest, ClaimsWaitInOrderAndASmallOneDoesNotOvertake) {
  EXPECT_EQ(Take(60, 1), 0u);
  EXPECT_NE(Take(50, 2), 0u);
  EXPECT_NE(Take(1, 3), 0u);
  EXPECT_TRUE(memory_.short_of_memory());
  memory_.Give(5);
  EXPECT_THAT(granted_, IsEmpty());
  memory_.Give(5);
  EXPECT_THAT(granted_, ElementsAre(2));
  EXPECT_TRUE(memory_.short_of_memory());
  memory_.Give(50);
  EXPECT_THAT(granted_, ElementsAre(2, 3));
  EXPECT_FALSE(memory_.short_of_memory());
  EXPECT_EQ(memory_.taken(), 51u);
}

TEST_F(MessageMemoryTest, AClaimOfARequestThatHasBegunComesBeforeThoseThatHaveNot) {
  Take(60, 1);
  EXPECT_NE(Take(50, 2), 0u);
  EXPECT_NE(Take({.bytes = 45, .whole = 45, .begun = true}, 3).waits_as, 0u);
  EXPECT_NE(Take({.bytes = 5, .whole = 5, .begun = true}, 4).waits_as, 0u);
  memory_.Give(10);
  EXPECT_THAT(granted_, ElementsAre(3, 4));
}

TEST_F(MessageMemoryTest, OnlyAClaimOfTheWholeUsesTheReserve) {
  EXPECT_EQ(Take({.bytes = 40, .whole = 50}, 1).bytes, 40u);
  EXPECT_EQ(Take({.bytes = 20, .whole = 50}, 2).bytes, 50u);
  const MessageMemory::Ticket third = Take({.bytes = 20, .whole = 50}, 3).waits_as;
  EXPECT_NE(third, 0u);
  memory_.Give(50);
  EXPECT_THAT(granted_, ElementsAre(3));
  EXPECT_EQ(memory_.Collect(third), 50u);
}

TEST_F(MessageMemoryTest, AClaimThatIsWithdrawnLetsThoseBehindItPass) {
  Take(60, 1);
  const MessageMemory::Ticket large = Take(100, 2);
  Take(40, 3);
  memory_.Withdraw(large);
  EXPECT_THAT(granted_, ElementsAre(3));
  EXPECT_FALSE(memory_.short_of_memory());
  EXPECT_EQ(memory_.taken(), 100u);
}

TEST_F(MessageMemoryTest, AClaimThatIsWithdrawnAfterItsGrantGivesTheMemoryBack) {
  Take(100, 1);
  const MessageMemory::Ticket ticket = Take(30, 2);
  Take(100, 3);
  memory_.Give(100);
  EXPECT_EQ(memory_.taken(), 30u);
  memory_.Withdraw(ticket);
  EXPECT_THAT(granted_, ElementsAre(2, 3));
  EXPECT_EQ(memory_.taken(), 100u);
}

TEST_F(MessageMemoryTest, AShortageIsLoggedByTheFirstThatSeesItLast) {
  EXPECT_EQ(memory_.shortage(), 0u);
  Take(100, 1);
  Take(30, 2);
  const uint64_t first = memory_.shortage();
  Take(30, 3);
  EXPECT_EQ(memory_.shortage(), first);
  EXPECT_TRUE(memory_.NoteLogged(first));
  EXPECT_FALSE(memory_.NoteLogged(first));
  memory_.Give(100);
  EXPECT_EQ(memory_.shortage(), 0u);
  Take(100, 4);
  EXPECT_TRUE(memory_.NoteLogged(memory_.shortage()));
}

TEST_F(MessageMemoryTest, WaitsHaveARoomOfTheirOwn) {
  Take(100, 1);
  EXPECT_TRUE(memory_.TakeForWaits(memory_.waits_max() - 1));
  EXPECT_FALSE(memory_.TakeForWaits(2));
  EXPECT_TRUE(memory_.TakeForWaits(1));
  memory_.GiveOfWaits(memory_.waits_max());
  EXPECT_EQ(memory_.taken_for_waits(), 0u);
}

}  // namespace
}  // namespace dp::wire
