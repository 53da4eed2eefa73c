#include "worker/library/mpi/mpi_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dp::library {
namespace {

using testing::HasSubstr;

class MpiAddressTest : public testing::Test {
 protected:
  std::string Chosen() {
    const auto address = AddressForOtherHosts(hints_);
    return address.ok() ? *address : std::string(address.status().message());
  }

  AddressHints hints_{.chosen = {},
                      .mpi_interfaces = "",
                      .of_host_name = {"10.1.0.7"},
                      .own = {{"eth0", "10.1.0.7"}, {"eth1", "10.2.0.7"}, {"eth2", "fd00::7"}}};
};

TEST_F(MpiAddressTest, AnAddressThatTheUserChoseComesFirst) {
  hints_.chosen = "10.9.0.1";
  hints_.mpi_interfaces = "eth1";
  EXPECT_EQ(Chosen(), "10.9.0.1");
}

TEST_F(MpiAddressTest, AnInterfaceThatMpiUsesComesBeforeTheHostsName) {
  hints_.mpi_interfaces = "eth1";
  EXPECT_EQ(Chosen(), "10.2.0.7");
  hints_.mpi_interfaces = "ib0,eth2,eth1";
  EXPECT_EQ(Chosen(), "fd00::7");
}

TEST_F(MpiAddressTest, MpiMayNameANetworkInstead) {
  hints_.mpi_interfaces = "10.2.0.0/16";
  EXPECT_EQ(Chosen(), "10.2.0.7");
  hints_.mpi_interfaces = "10.2.0.6/31";
  EXPECT_EQ(Chosen(), "10.2.0.7");
  hints_.mpi_interfaces = "10.2.0.4/31,10.2.0.7/33,10.2.0/16,0.0.0.0/0";
  EXPECT_EQ(Chosen(), "10.1.0.7");
}

TEST_F(MpiAddressTest, AnInterfaceThatThisHostLacksDecidesNothing) {
  hints_.mpi_interfaces = "ib0";
  EXPECT_EQ(Chosen(), "10.1.0.7");
}

// Debian's /etc/hosts gives the host's name a loopback address.
TEST_F(MpiAddressTest, AHostWhoseNameHasNoAddressForPeersTakesThatOfItsFirstInterface) {
  hints_.of_host_name = {};
  EXPECT_EQ(Chosen(), "10.1.0.7");
  hints_.own.erase(hints_.own.begin());
  EXPECT_EQ(Chosen(), "10.2.0.7");
}

TEST_F(MpiAddressTest, AHostWithoutNetworkIsAnErrorWithTheRemedy) {
  hints_ = {};
  EXPECT_THAT(Chosen(), HasSubstr("no address but loopback"));
  EXPECT_THAT(Chosen(), HasSubstr("or set DP_ADDRESS"));
}

TEST_F(MpiAddressTest, ThisHostsHintsHaveTheVariablesAndNoLoopback) {
  const AddressHints hints = HintsOfThisHost([](absl::string_view name) {
    return name == "DP_ADDRESS" ? std::optional<std::string>("here") : std::nullopt;
  });
  EXPECT_EQ(hints.chosen, "here");
  EXPECT_EQ(hints.mpi_interfaces, "");
  for (const InterfaceAddress& own : hints.own) {
    EXPECT_NE(own.interface, "lo");
    EXPECT_FALSE(own.digits.starts_with("127.")) << own.digits;
  }
}

}  // namespace
}  // namespace dp::library
