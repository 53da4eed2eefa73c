#include "worker/agent/local_address.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

TEST(LocalAddressTest, TheWayToThisHostItselfIsLoopback) {
  EXPECT_EQ(*LocalAddressTowards("127.0.0.1:7070"), "127.0.0.1");
}

TEST(LocalAddressTest, BracketsAreTakenOffAnIpv6Address) {
  EXPECT_EQ(ParseHostPort("[::1]:7070")->host, "::1");
  EXPECT_EQ(ParseHostPort("[::1]:7070")->port, "7070");
}

TEST(LocalAddressTest, AnythingElseThanHostAndPortIsRefusedWithTheForm) {
  for (const char* wrong : {"", "host", "host:", ":7070", "host:port", "::1", "host:0",
                            "host:65536", "host:99999999999999999999"}) {
    const auto parsed = ParseHostPort(wrong);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

TEST(LocalAddressTest, APortThatDoesNotExistIsNamed) {
  EXPECT_THAT(std::string(ParseHostPort("host:72606").status().message()),
              testing::HasSubstr("port 72606; a port is from 1 to 65535"));
}

TEST(LocalAddressTest, RanksListenOnAnAddressOfThisHostOnly) {
  EXPECT_EQ(CheckOwnAddress("127.0.0.1"), absl::OkStatus());
  // 192.0.2.0/24 is for documentation: no host has an address of it.
  for (const char* wrong : {"192.0.2.1", "0.0.0.0", "::"}) {
    const absl::Status status = CheckOwnAddress(wrong);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong << ": " << status;
  }
}

}  // namespace
}  // namespace dp::worker
