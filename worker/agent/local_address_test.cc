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
  for (const char* wrong : {"", "host", "host:", ":7070", "host:port", "::1"}) {
    const auto parsed = ParseHostPort(wrong);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

}  // namespace
}  // namespace dp::worker
