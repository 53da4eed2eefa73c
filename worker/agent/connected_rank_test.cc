#include "worker/agent/connected_rank.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
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

TEST_F(ConnectedRankTest, AConnectionThatIsNotThereHasNone) {
  Connect("DP_JOB=7 DP_RANK=3");
  client_port_ = 0;
  EXPECT_EQ(Rank(7), std::nullopt);
}

}  // namespace
}  // namespace dp::worker
