#include "base/socket_end.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <string>

namespace dp {
namespace {

std::string V6(const char* text, uint16_t port) {
  in6_addr address{};
  EXPECT_EQ(inet_pton(AF_INET6, text, &address), 1);
  return SocketEnd(address, port);
}

TEST(SocketEndTest, AnAddressOfIpv6StandsInBrackets) {
  EXPECT_EQ(V6("fd00::1", 7070), "[fd00::1]:7070");
  in_addr v4{};
  inet_pton(AF_INET, "10.0.0.2", &v4);
  EXPECT_EQ(SocketEnd(v4, 40312), "10.0.0.2:40312");
}

TEST(SocketEndTest, OneThatStandsForIpv4IsWrittenAsThatOne) {
  EXPECT_EQ(V6("::ffff:10.0.0.2", 40312), "10.0.0.2:40312");
}

TEST(SocketEndTest, WhatTheSystemAnswersIsOfEitherFamily) {
  sockaddr_storage address{};
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(80);
  v6->sin6_addr = in6addr_loopback;
  EXPECT_EQ(SocketEnd(address), "[::1]:80");
  address = {};
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
  v4->sin_family = AF_INET;
  v4->sin_port = htons(80);
  v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(SocketEnd(address), "127.0.0.1:80");
  address.ss_family = AF_UNIX;
  EXPECT_EQ(SocketEnd(address), "");
}

TEST(SocketEndTest, GrpcsPeersHaveTheSameText) {
  EXPECT_EQ(SocketEndOfPeer("ipv4:10.0.0.2:40312"), "10.0.0.2:40312");
  EXPECT_EQ(SocketEndOfPeer("ipv6:%5Bfd00::1%5D:40312"), V6("fd00::1", 40312));
  EXPECT_EQ(SocketEndOfPeer("ipv6:%5Bfe80::1%252%5D:40312"), V6("fe80::1", 40312));
}

}  // namespace
}  // namespace dp
