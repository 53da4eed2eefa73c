#include "worker/agent/connected_rank.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/store/wire/socket.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

// A server, and a program that has connected to it, with an environment of its own.
class ConnectedRankTest : public ::testing::Test {
 protected:
  void Connect(const std::string& environment) {
    const std::string program =
        absl::StrCat("env ", environment, " bash -c 'exec 3<>/dev/tcp/127.0.0.1/",
                     *wire::PortOf(listener_.get()), "; read -r line'");
    client_.reset(popen(program.c_str(), "w"));  // it ends when its input does
    ASSERT_TRUE(wire::AwaitSocket(listener_.get(), POLLIN, absl::Minutes(1)).ok());
    sockaddr_in peer{};
    socklen_t size = sizeof(peer);
    accepted_ = FileDescriptor(
        accept4(listener_.get(), reinterpret_cast<sockaddr*>(&peer), &size, SOCK_CLOEXEC));
    ASSERT_TRUE(accepted_.valid());
    client_port_ = ntohs(peer.sin_port);
  }
  std::optional<int> Rank(uint64_t job) {
    return ConnectedRank(JobId(job), {*wire::PortOf(listener_.get()), client_port_});
  }

  struct End {
    void operator()(std::FILE* program) { pclose(program); }
  };
  const FileDescriptor listener_ = *wire::Listen("127.0.0.1", 0);
  FileDescriptor accepted_;
  std::unique_ptr<std::FILE, End> client_;
  uint16_t client_port_ = 0;
};

TEST_F(ConnectedRankTest, ItIsThatOfTheProcessAtTheOtherEnd) {
  Connect("DP_JOB=7 DP_RANK=3");
  EXPECT_EQ(Rank(7), 3);
}

TEST_F(ConnectedRankTest, AProcessOfAnotherJobHasNone) {
  Connect("DP_JOB=70 DP_RANK=3");
  EXPECT_EQ(Rank(7), std::nullopt);
}

// As that of a client on another host, which has the port that a rank here has for something else.
TEST_F(ConnectedRankTest, OneOfTwoConnectionsWithThesePortsHasNone) {
  Connect("DP_JOB=7 DP_RANK=3");
  const FileDescriptor other(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in from{};
  from.sin_family = AF_INET;
  from.sin_port = htons(client_port_);
  from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
  ASSERT_EQ(bind(other.get(), reinterpret_cast<sockaddr*>(&from), sizeof(from)), 0);
  sockaddr_in to = from;
  to.sin_port = htons(*wire::PortOf(listener_.get()));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(other.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  EXPECT_EQ(Rank(7), std::nullopt);
}

TEST(RankLookupTest, TheAnswerIsThatOfTheQuestion) {
  RankLookup lookup([](uint16_t port) { return std::optional<int>(port + 1); });
  EXPECT_EQ(lookup.Ask(1), 2);
  EXPECT_EQ(lookup.Ask(5), 6);
}

TEST(RankLookupTest, WhatTakesLongIsNotWaitedForAndKeepsNobodyElseWaiting) {
  BoundedQueue<bool> go_on(10);
  RankLookup lookup([&](uint16_t port) {
    go_on.DrainFor(absl::Seconds(20));
    return std::optional<int>(port);
  });
  const absl::Time began = Clock::Steady().Now();
  EXPECT_EQ(lookup.Ask(1), std::nullopt);
  EXPECT_EQ(lookup.Ask(2), std::nullopt);
  EXPECT_LT(Clock::Steady().Now() - began, absl::Seconds(15));
  go_on.Close();
  std::optional<int> answer;
  while (!answer.has_value()) answer = lookup.Ask(3);
  EXPECT_EQ(answer, 3);
}

TEST_F(ConnectedRankTest, AConnectionThatIsNotThereHasNone) {
  Connect("DP_JOB=7 DP_RANK=3");
  client_port_ = 0;
  EXPECT_EQ(Rank(7), std::nullopt);
}

}  // namespace
}  // namespace dp::worker
