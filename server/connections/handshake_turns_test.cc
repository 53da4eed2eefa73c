#include "server/connections/handshake_turns.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using testing::ElementsAre;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

class HandshakeTurnsTest : public testing::Test {
 protected:
  // All that may begin now.
  std::vector<int> TakeAll(absl::Duration after = absl::ZeroDuration()) {
    std::vector<int> taken;
    while (const auto connection = turns_.Take(kNow + after)) taken.push_back(*connection);
    return taken;
  }
  void Add(const std::string& host, std::vector<int> connections) {
    for (const int connection : connections) {
      EXPECT_TRUE(turns_.Add(host, connection, kNow)) << connection;
    }
  }

  HandshakeTurns turns_{{.per_second = 10, .at_once = 3, .of_host = 4, .all = 6}};
};

TEST_F(HandshakeTurnsTest, AFewBeginAtOnceAndTheOthersAtTheRate) {
  Add("a", {1, 2, 3, 4});
  EXPECT_THAT(TakeAll(), ElementsAre(1, 2, 3));
  EXPECT_EQ(turns_.next_at(kNow), kNow + absl::Milliseconds(100));
  EXPECT_THAT(TakeAll(absl::Milliseconds(99)), ElementsAre());
  EXPECT_THAT(TakeAll(absl::Milliseconds(101)), ElementsAre(4));
  EXPECT_TRUE(turns_.empty());
}

TEST_F(HandshakeTurnsTest, TimeWithoutHandshakesSavesUpNoMoreThanAFew) {
  EXPECT_THAT(TakeAll(), ElementsAre());
  Add("a", {1, 2, 3, 4});
  EXPECT_THAT(TakeAll(absl::Hours(1)), ElementsAre(1, 2, 3));
}

TEST_F(HandshakeTurnsTest, AHostWithManyConnectionsDelaysAnotherByOne) {
  Add("many", {1, 2, 3, 4});
  Add("one", {9});
  EXPECT_THAT(TakeAll(), ElementsAre(1, 9, 2));
}

TEST_F(HandshakeTurnsTest, AHostThatMayNotBeginDelaysNobodyAndKeepsItsPlace) {
  const auto but_not_a = [](const std::string& host) { return host != "a"; };
  Add("a", {1});
  EXPECT_EQ(turns_.Take(kNow, but_not_a), std::nullopt);
  Add("b", {6, 7});
  EXPECT_EQ(turns_.Take(kNow, but_not_a), 6);
  EXPECT_EQ(turns_.Take(kNow), 1);
  EXPECT_EQ(turns_.Take(kNow), 7);  // the vain attempt has used up no turn
}

TEST_F(HandshakeTurnsTest, NoMoreWaitThanThereIsRoomFor) {
  Add("a", {1, 2, 3, 4});
  EXPECT_FALSE(turns_.Add("a", 5, kNow));
  Add("b", {6, 7});
  EXPECT_FALSE(turns_.Add("c", 8, kNow));
}

TEST_F(HandshakeTurnsTest, ThoseWhoseClientsHaveGivenUpDoNotBegin) {
  Add("a", {1, 2});
  EXPECT_TRUE(turns_.Add("a", 3, kNow + absl::Seconds(5)));
  EXPECT_THAT(turns_.TakeOverdue(kNow + absl::Seconds(11)), ElementsAre(1, 2));
  EXPECT_THAT(TakeAll(absl::Seconds(11)), ElementsAre(3));
}

}  // namespace
}  // namespace dp::server
