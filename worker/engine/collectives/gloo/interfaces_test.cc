#include "worker/engine/collectives/gloo/interfaces.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::engine {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(InterfacesTest, NamesAreSeparatedByCommas) {
  EXPECT_THAT(InterfaceNames("eth0"), ElementsAre("eth0"));
  EXPECT_THAT(InterfaceNames("ib0, ib1,,"), ElementsAre("ib0", "ib1"));
  EXPECT_THAT(InterfaceNames(""), IsEmpty());
}

TEST(InterfacesTest, AnInterfaceThatIsMissingIsNamedWithThoseThatExist) {
  EXPECT_EQ(CheckInterfacesExist({"eth1", "lo"}, {"lo", "eth0", "eth1"}), absl::OkStatus());
  EXPECT_EQ(CheckInterfacesExist({"lo", "eth2"}, {"lo", "eth0"}),
            absl::InvalidArgumentError("interface 'eth2' does not exist; this host has lo, eth0"));
  EXPECT_THAT(InterfacesOfThisHost(), Contains("lo"));
}

TEST(InterfacesTest, ListsOfDifferentLengthNameTwoRanksAndTheirLists) {
  EXPECT_EQ(CheckListsAsLong({"eth0,eth1", "ib0,ib1"}), absl::OkStatus());
  EXPECT_EQ(CheckListsAsLong({"eth0", ""}), absl::OkStatus());
  EXPECT_EQ(CheckListsAsLong({"eth0,eth1", "a,b", "eth0"}),
            absl::FailedPreconditionError("rank 0 lists the interfaces 'eth0,eth1', rank 2 lists "
                                          "'eth0'; give every rank as many"));
  EXPECT_EQ(
      CheckListsAsLong({"", "a,b"}),
      absl::FailedPreconditionError("rank 0 lists the interfaces one by default, rank 1 lists "
                                    "'a,b'; give every rank as many"));
}

}  // namespace
}  // namespace dp::engine
