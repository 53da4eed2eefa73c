#include "server/connections/open_connections.h"

#include <set>

#include "gtest/gtest.h"

namespace dp::server {
namespace {

class OpenConnectionsTest : public testing::Test {
 protected:
  // Whether the connection was let in.
  bool Open(const std::string& host, int connection) {
    const bool room = connections_.HasRoom(host, now_, [this](int each) {
      ++asked_;
      return !closed_.contains(each);
    });
    if (room) connections_.Add(host, connection);
    return room;
  }

  OpenConnections connections_{/*of_host_max=*/2};
  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  std::set<int> closed_;
  int asked_ = 0;
};

TEST_F(OpenConnectionsTest, AHostMayOpenSoManyAndNoMore) {
  EXPECT_TRUE(Open("a", 1) && Open("a", 2));
  EXPECT_FALSE(Open("a", 3));
  EXPECT_TRUE(Open("b", 3));
}

TEST_F(OpenConnectionsTest, ThoseThatWereClosedMakeRoom) {
  Open("a", 1), Open("a", 2);
  closed_ = {1};
  EXPECT_TRUE(Open("a", 3));
  EXPECT_FALSE(Open("a", 4));
  EXPECT_EQ(connections_.size(), 2u);
}

TEST_F(OpenConnectionsTest, OneThatIsRemovedMakesRoomForItsHost) {
  Open("a", 1), Open("a", 2);
  connections_.Remove(2);
  connections_.Remove(7);
  EXPECT_TRUE(Open("a", 2));
}

TEST_F(OpenConnectionsTest, HostsBelowTheirLimitAreNotCountedAnew) {
  Open("a", 1), Open("a", 2), Open("b", 3);
  EXPECT_EQ(asked_, 0);
  Open("a", 4);
  EXPECT_EQ(asked_, 2);
}

TEST_F(OpenConnectionsTest, AHostThatKeepsConnectingIsNotCountedEachTime) {
  Open("a", 1), Open("a", 2);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(Open("a", 3));
  EXPECT_EQ(asked_, 2);
  closed_ = {1};
  EXPECT_FALSE(Open("a", 3));
  now_ += OpenConnections::kCountEvery;
  EXPECT_TRUE(Open("a", 3));
}

TEST_F(OpenConnectionsTest, NothingIsKeptOfHostsWithoutConnections) {
  Open("a", 1);
  connections_.Remove(1);
  EXPECT_EQ(connections_.size(), 0u);
  EXPECT_TRUE(Open("b", 1));
}

}  // namespace
}  // namespace dp::server
