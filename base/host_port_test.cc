#include "base/host_port.h"

#include "gtest/gtest.h"

namespace dp {
namespace {

std::string Halves(const std::string& text) {
  const auto parsed = ParseHostPort(text);
  return parsed.ok() ? parsed->host + " " + parsed->port : std::string(parsed.status().message());
}

TEST(HostPortTest, NamesAndAddressesHaveTwoHalves) {
  EXPECT_EQ(Halves("localhost:1"), "localhost 1");
  EXPECT_EQ(Halves("10.0.0.1:65535"), "10.0.0.1 65535");
  EXPECT_EQ(Halves("[::1]:7070"), "::1 7070");
}

TEST(HostPortTest, WhatIsNoneSaysHowToWriteIt) {
  for (const std::string text :
       {"", "foo", ":7070", "[]:7070", "::1", "::1:7070", "a b:1", "http://a:1",
        "host:", "host:port", "host:-1", "host:+1", "a: 1", "[[a]]:1", "a]:1"})
    EXPECT_EQ(Halves(text),
              "'" + text + "' is no HOST:PORT; write it as 10.0.0.1:7070 or [::1]:7070");
}

TEST(HostPortTest, APortThatDoesNotExistIsNamed) {
  for (const std::string port : {"0", "65536", "99999999999999999999"})
    EXPECT_EQ(Halves("host:" + port),
              "'host:" + port + "' has port " + port + "; a port is from 1 to 65535");
}

}  // namespace
}  // namespace dp
