#include "server/connections/listen_address.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using ::testing::HasSubstr;

TEST(ListenAddressTest, HostAndPortAreTakenApart) {
  const auto v4 = ListenAddress::Parse("127.0.0.1:7070");
  ASSERT_TRUE(v4.ok()) << v4.status();
  EXPECT_EQ(v4->host, "127.0.0.1");
  EXPECT_EQ(v4->port, 7070);
  const auto v6 = ListenAddress::Parse("[::1]:0");
  ASSERT_TRUE(v6.ok()) << v6.status();
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->ToString(), "[::1]:0");
}

TEST(ListenAddressTest, WhatIsNoAddressIsRefused) {
  for (const char* bad : {"", ":7070", "host", "host:", "host:x", "host:-1", "host:65536", "[]:1",
                          "[::1:1", "[[::1]]:1", "::1]:1"}) {
    EXPECT_EQ(ListenAddress::Parse(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(ListenAddressTest, AnAddressThatThisHostDoesNotHaveYetIsUnavailableByFlag) {
  // An address for documentation, which no host has (RFC 5737).
  const absl::Status status = ListenAddress{"192.0.2.1", 0}.CheckFree("--tcpstore-listen");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("192.0.2.1:0: this host has no such"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--tcpstore-listen"));
  EXPECT_TRUE((ListenAddress{"127.0.0.1", 0}.CheckFree("--listen").ok()));
}

TEST(ListenAddressTest, OnlyThisMachineReachesLoopback) {
  for (const char* local : {"127.0.0.1:1", "127.9.9.9:1", "localhost:1", "[::1]:1"}) {
    EXPECT_TRUE(ListenAddress::Parse(local)->loopback()) << local;
  }
  for (const char* open :
       {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "example.org:1", "127.example.org:1"}) {
    EXPECT_FALSE(ListenAddress::Parse(open)->loopback()) << open;
  }
}

}  // namespace
}  // namespace dp::server
