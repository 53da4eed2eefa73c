#include "server/access/stranger_connections.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <filesystem>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file_descriptor.h"
#include "base/socket_end.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using ::testing::HasSubstr;

const absl::Time kLookAt = absl::FromUnixSeconds(1'800'000'000);
constexpr size_t kMuch = 2 * StrangerConnections::kSparedBytes;

// A host may send kMuch, and nothing more for a while.
class StrangerConnectionsTest : public testing::Test {
 protected:
  // A connection, of which the server's end is added under a name of a host.
  struct Pair {
    FileDescriptor client, server;
    std::string end;
  };
  Pair Connect(const std::string& host = "h", int family = AF_INET) {
    FileDescriptor listener(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_storage address = Loopback(family);
    socklen_t size = sizeof(address);
    DP_CHECK(bind(listener.get(), Of(address), size) == 0 && listen(listener.get(), 1) == 0);
    DP_CHECK(getsockname(listener.get(), Of(address), &size) == 0);
    Pair pair{FileDescriptor(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)), {}, ""};
    DP_CHECK(connect(pair.client.get(), Of(address), size) == 0);
    size = sizeof(address);
    pair.server = FileDescriptor(accept4(listener.get(), Of(address), &size, SOCK_CLOEXEC));
    pair.end = SocketEnd(address);
    DP_CHECK(strangers_.Add(pair.server.get(), host, pair.end));
    return pair;
  }
  // The server has read all of it when the call returns.
  static void Send(const Pair& pair, size_t bytes) {
    const std::string sent(4'096, 'x');
    std::string read(sent.size(), '\0');
    for (size_t done = 0; done < bytes; done += sent.size()) {
      DP_CHECK(send(pair.client.get(), sent.data(), sent.size(), MSG_NOSIGNAL) == 4'096);
      DP_CHECK(recv(pair.server.get(), read.data(), read.size(), MSG_WAITALL) == 4'096);
    }
  }
  static bool IsShutDown(const Pair& pair) {
    pollfd wait{.fd = pair.client.get(), .events = POLLIN, .revents = 0};
    char byte;
    return poll(&wait, 1, 0) == 1 && recv(pair.client.get(), &byte, 1, 0) <= 0;
  }
  static int Window(const Pair& pair) {
    int bytes = 0;
    socklen_t size = sizeof(bytes);
    DP_CHECK(getsockopt(pair.server.get(), IPPROTO_TCP, TCP_WINDOW_CLAMP, &bytes, &size) == 0);
    return bytes;
  }

  Refusals refusals_;
  StrangerConnections strangers_{
      {.per_second = 1, .at_once = kMuch, .owes_max = absl::Seconds(10), .hosts = 10}, refusals_};

 private:
  static sockaddr* Of(sockaddr_storage& address) { return reinterpret_cast<sockaddr*>(&address); }
  static sockaddr_storage Loopback(int family) {
    sockaddr_storage address{};
    address.ss_family = static_cast<sa_family_t>(family);
    if (family == AF_INET6) {
      reinterpret_cast<sockaddr_in6&>(address).sin6_addr = in6addr_loopback;
    } else {
      reinterpret_cast<sockaddr_in&>(address).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    return address;
  }
};

TEST_F(StrangerConnectionsTest, AStrangerWhoSendsTooMuchIsShutDownAndItsHostOwes) {
  const Pair pair = Connect();
  Send(pair, kMuch);
  strangers_.Look(kLookAt);
  EXPECT_FALSE(IsShutDown(pair) || strangers_.Owes("h", kLookAt));
  Send(pair, 4'096);
  strangers_.Look(kLookAt);
  EXPECT_TRUE(IsShutDown(pair));
  EXPECT_TRUE(strangers_.Owes("h", kLookAt));
  EXPECT_FALSE(strangers_.Owes("h", kLookAt + absl::Seconds(10)));
  EXPECT_EQ(strangers_.size(), 0u);
}

TEST_F(StrangerConnectionsTest, AStrangerWhoProvesNothingForAMinuteIsShutDown) {
  const Pair pair = Connect();
  strangers_.Look(kLookAt);
  strangers_.Look(kLookAt + StrangerConnections::kAgeMax - absl::Seconds(1));
  EXPECT_FALSE(IsShutDown(pair));
  strangers_.Look(kLookAt + StrangerConnections::kAgeMax);
  EXPECT_TRUE(IsShutDown(pair));
  ASSERT_EQ(refusals_.Latest().size(), 1u);
  EXPECT_THAT(refusals_.Latest()[0].reason, HasSubstr("h has not proven who calls within 1m"));
}

TEST_F(StrangerConnectionsTest, AStrangerWhoReadsNoAnswerIsShutDown) {
  const Pair pair = Connect();
  const std::string answer(1 << 20, 'x');
  while (send(pair.server.get(), answer.data(), answer.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
  }
  strangers_.Look(kLookAt);
  EXPECT_EQ(strangers_.size(), 0u);
  ASSERT_EQ(refusals_.Latest().size(), 1u);
  EXPECT_THAT(refusals_.Latest()[0].reason, HasSubstr("h does not read its answers"));
}

// Otherwise a client that sends into a closed window would wait for a minute.
TEST_F(StrangerConnectionsTest, TheClientOfAShutDownConnectionIsReset) {
  Pair pair = Connect();
  Send(pair, 2 * kMuch);
  strangers_.Look(kLookAt);
  pair.server.Close();
  pollfd wait{.fd = pair.client.get(), .events = 0, .revents = 0};  // for POLLERR
  ASSERT_EQ(poll(&wait, 1, 10'000), 1);
  EXPECT_NE(wait.revents & POLLERR, 0);
}

TEST_F(StrangerConnectionsTest, NoDescriptorStaysOpen) {
  const auto open = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = open();
  {
    const Pair proven = Connect(), ended = Connect(), flood = Connect();
    EXPECT_EQ(open(), before + 9);
    strangers_.Proven("ipv4:" + proven.end);
    shutdown(ended.client.get(), SHUT_WR);
    strangers_.Ended(ended.server.get(), kLookAt);
    Send(flood, 2 * kMuch);
    strangers_.Look(kLookAt);
    EXPECT_EQ(open(), before + 6);
  }
  EXPECT_EQ(open(), before);
}

TEST_F(StrangerConnectionsTest, WithoutADescriptorAConnectionIsNotTaken) {
  const Pair pair = Connect();
  rlimit limit{};
  DP_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  DP_CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
  EXPECT_FALSE(strangers_.Add(pair.client.get(), "h", "10.0.0.1:1"));
  DP_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  EXPECT_EQ(strangers_.size(), 1u);
}

TEST_F(StrangerConnectionsTest, TheShutdownIsARefusalWithAddressAndReason) {
  const Pair pair = Connect();
  Send(pair, 2 * kMuch);
  testing::internal::CaptureStderr();
  strangers_.Look(kLookAt);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr(absl::StrCat("event=connection_shut_down peer=", pair.end,
                                     " reason=\"h sends too much without proving who calls")));
  ASSERT_EQ(refusals_.Latest().size(), 1u);
  EXPECT_EQ(refusals_.Latest()[0].peer, pair.end);
  EXPECT_FALSE(refusals_.Latest()[0].rpc.has_value());
}

TEST_F(StrangerConnectionsTest, ManyConnectionsOfAHostCountTogether) {
  const Pair first = Connect(), second = Connect(), other = Connect("other");
  for (const Pair* pair : {&first, &second, &other}) Send(*pair, kMuch);
  strangers_.Look(kLookAt);
  strangers_.Look(kLookAt);
  EXPECT_TRUE(IsShutDown(first) && IsShutDown(second));
  EXPECT_FALSE(IsShutDown(other));
}

TEST_F(StrangerConnectionsTest, SomebodyElseBehindTheAddressWhoSendsLittleIsSpared) {
  const Pair flood = Connect(), other = Connect();
  Send(flood, 2 * kMuch);
  Send(other, StrangerConnections::kSparedBytes);
  strangers_.Look(kLookAt);
  strangers_.Look(kLookAt);
  EXPECT_TRUE(IsShutDown(flood));
  EXPECT_FALSE(IsShutDown(other));
}

TEST_F(StrangerConnectionsTest, WhoeverHasProvenWhoCallsMaySendAsMuchAsTheyLike) {
  const Pair pair = Connect();
  Send(pair, kMuch);
  strangers_.Look(kLookAt);
  strangers_.Proven("ipv4:" + pair.end);
  Send(pair, 4 * kMuch);
  strangers_.Look(kLookAt);
  EXPECT_FALSE(IsShutDown(pair) || strangers_.Owes("h", kLookAt));
  const Pair next = Connect();  // what the first has sent does not count
  Send(next, kMuch);
  strangers_.Look(kLookAt);
  EXPECT_FALSE(IsShutDown(next) || strangers_.Owes("h", kLookAt));
}

TEST_F(StrangerConnectionsTest, TheKernelTakesLittleAtOnceFromStrangersOnly) {
  const Pair pair = Connect();
  EXPECT_EQ(Window(pair), StrangerConnections::kWindowBytes);
  strangers_.Proven("ipv4:" + pair.end);
  EXPECT_GT(Window(pair), 1 << 24);
}

TEST_F(StrangerConnectionsTest, AddressesOfIpv6AreReadAsGrpcWritesThem) {
  const Pair pair = Connect("h", AF_INET6);
  strangers_.Proven(absl::StrCat("ipv6:%5B::1%5D", pair.end.substr(pair.end.rfind(':'))));
  EXPECT_EQ(strangers_.size(), 0u);
  const Pair on_link = Connect("h", AF_INET6);
  strangers_.Proven(absl::StrCat("ipv6:%5B::1%252%5D", on_link.end.substr(on_link.end.rfind(':'))));
  EXPECT_EQ(strangers_.size(), 0u);
}

TEST_F(StrangerConnectionsTest, AConnectionThatEndsIsForgottenAndItsBytesCount) {
  const Pair pair = Connect();
  Send(pair, 2 * kMuch);
  shutdown(pair.client.get(), SHUT_WR);
  strangers_.Ended(pair.server.get(), kLookAt);
  EXPECT_EQ(strangers_.size(), 0u);
  EXPECT_TRUE(strangers_.Owes("h", kLookAt));
  strangers_.Ended(pair.server.get(), kLookAt);
  EXPECT_FALSE(IsShutDown(pair));
}

// gRPC closes a connection as soon as it has read the last byte.
TEST_F(StrangerConnectionsTest, WhatWasSentOnAConnectionThatIsClosedBeforeALookCounts) {
  Pair pair = Connect();
  Send(pair, 2 * kMuch);
  shutdown(pair.server.get(), SHUT_RDWR);
  pair.server.Close();
  strangers_.Look(kLookAt);
  EXPECT_TRUE(strangers_.Owes("h", kLookAt));
  EXPECT_EQ(strangers_.size(), 0u);
  EXPECT_EQ(refusals_.Latest().size(), 1u);
}

TEST_F(StrangerConnectionsTest, AnotherSocketOfTheSameNumberIsLeftAlone) {
  Pair first = Connect();
  Send(first, 2 * kMuch);
  const int number = first.server.get();
  const Pair second = Connect("other");
  DP_CHECK(dup2(second.server.get(), number) == number);
  strangers_.Look(kLookAt);
  EXPECT_FALSE(IsShutDown(second));
  EXPECT_EQ(strangers_.size(), 1u);
}

TEST_F(StrangerConnectionsTest, ItLooksOftenOnlyWhileStrangersSend) {
  EXPECT_EQ(strangers_.next_look(), absl::InfiniteFuture());
  const Pair pair = Connect();
  Send(pair, 4'096);
  strangers_.Look(kLookAt);
  EXPECT_EQ(strangers_.next_look(), kLookAt + StrangerConnections::kLookEvery);
  strangers_.Look(kLookAt);
  EXPECT_EQ(strangers_.next_look(), kLookAt + StrangerConnections::kLookAtRestEvery);
  Send(pair, 4'096);
  strangers_.Look(kLookAt);
  EXPECT_EQ(strangers_.next_look(), kLookAt + StrangerConnections::kLookEvery);
  strangers_.Proven("ipv4:" + pair.end);
  EXPECT_EQ(strangers_.next_look(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace dp::server
