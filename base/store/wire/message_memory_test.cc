#include "base/store/wire/message_memory.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class MessageMemoryTest : public ::testing::Test {
 protected:
  MessageMemory::Ticket Take(size_t bytes, int name) {
    return memory_.Take(bytes, [this, name] { granted_.push_back(name); });
  }

  MessageMemory memory_{100};
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

TEST_F(MessageMemoryTest, AClaimThatIsWithdrawnLetsThoseBehindItPass) {
  Take(60, 1);
  const MessageMemory::Ticket large = Take(100, 2);
  Take(40, 3);
  EXPECT_TRUE(memory_.Withdraw(large));
  EXPECT_THAT(granted_, ElementsAre(3));
  EXPECT_FALSE(memory_.short_of_memory());
  EXPECT_EQ(memory_.taken(), 100u);
}

TEST_F(MessageMemoryTest, AClaimThatHasItsMemoryCannotBeWithdrawn) {
  Take(100, 1);
  const MessageMemory::Ticket ticket = Take(30, 2);
  memory_.Give(100);
  EXPECT_FALSE(memory_.Withdraw(ticket));
  EXPECT_EQ(memory_.taken(), 30u);
}

}  // namespace
}  // namespace dp::wire
