#include "worker/engine/collectives/links/link_doors.h"

#include <netinet/in.h>
#include <sys/un.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::engine {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

std::vector<sa_family_t> FamiliesOf(const std::vector<LinkPlace>& places) {
  std::vector<sa_family_t> families;
  for (const LinkPlace& place : places)
    families.push_back(reinterpret_cast<const sockaddr*>(place.address.data())->sa_family);
  return families;
}

TEST(LinkDoorsTest, RanksOfOneHostTakeItsOwnSockets) {
  LinkDoors mine("host a", "127.0.0.1", 2), theirs("host a", "", 2);
  const auto joined = mine.Join(0, {mine.Card(), theirs.Card()});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->rank, 0);
  EXPECT_THAT(FamiliesOf(joined->places), Each(AF_UNIX));
  EXPECT_TRUE(joined->listener.valid());
  EXPECT_NE(joined->places[0].token, joined->places[1].token);
}

TEST(LinkDoorsTest, RanksOfSeveralHostsTakeTcp) {
  LinkDoors mine("host a", "127.0.0.1", 2), theirs("host b", "127.0.0.1", 2);
  const auto joined = theirs.Join(1, {mine.Card(), theirs.Card()});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_THAT(FamiliesOf(joined->places), Each(AF_INET));
}

TEST(LinkDoorsTest, HostsThatAreNotKnownAreDifferentOnes) {
  LinkDoors mine("", "127.0.0.1", 2), theirs("", "127.0.0.1", 2);
  EXPECT_THAT(FamiliesOf(mine.Join(0, {mine.Card(), theirs.Card()})->places), Each(AF_INET));
}

TEST(LinkDoorsTest, ARankWithoutAnAddressIsNamedOnAllWithTheRemedy) {
  LinkDoors mine("host a", "127.0.0.1", 2), theirs("host b", "", 2);
  const std::vector<std::string> cards = {mine.Card(), theirs.Card()};
  for (const absl::Status& status : {mine.Join(0, cards).status(), theirs.Join(1, cards).status()})
    EXPECT_EQ(status, absl::FailedPreconditionError(
                          "rank 1 takes no messages from other hosts; give it an address in digits "
                          "by DP_ADDRESS"));
}

TEST(LinkDoorsTest, ATextThatIsNoCardIsAnError) {
  LinkDoors mine("host a", "", 2);
  EXPECT_THAT(std::string(mine.Join(0, {mine.Card(), "host a"}).status().message()),
              HasSubstr("'host a' is no card"));
}

}  // namespace
}  // namespace dp::engine
