#include "worker/agent/stores/listener_probe.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <string>

#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "gtest/gtest.h"
#include "worker/agent/stores/reserved_ports.h"

namespace dp::worker {
namespace {

FileDescriptor ListenOnLoopback() {
  FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(listen(listener.get(), 100), 0);
  return listener;
}

int PortOf(const FileDescriptor& listener) {
  sockaddr_in address = {};
  socklen_t size = sizeof(address);
  EXPECT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

TEST(ListenerProbeTest, APortThatIsBoundButNotListenedOnRefuses) {
  const auto port = ReservedPorts::Reserve(1);
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_TRUE(ListenerProbe("127.0.0.1:" + std::to_string(port->numbers()[0])).NobodyListens());
}

TEST(ListenerProbeTest, ANameThatIsNoneTellsNothing) {
  EXPECT_FALSE(ListenerProbe("no such host:1").NobodyListens());
  EXPECT_FALSE(ListenerProbe("127.0.0.1").NobodyListens());
}

// A name whose address changes as the test orders.
class MovingNameTest : public testing::Test {
 protected:
  static std::string At(int port) { return "127.0.0.1:" + std::to_string(port); }
  // The result of the next look-up; empty: no answer.
  void Answer(std::string host_port) { answers_.TryPush(host_port); }
  ListenerProbe::Addresses Next() {
    std::string answer;
    for (const std::string& each : answers_.DrainFor(absl::Seconds(20))) answer = each;
    ++looked_up_;
    return answer.empty() ? nullptr : ListenerProbe::Resolve(answer);
  }
  bool AwaitListener(ListenerProbe& probe) {
    const absl::Time deadline = Clock::Steady().Now() + absl::Seconds(20);
    while (probe.NobodyListens() && Clock::Steady().Now() < deadline) {
    }
    return !probe.NobodyListens();
  }

  BoundedQueue<std::string> answers_{10};
  std::atomic<int> looked_up_ = 0;
  const FileDescriptor listener_{ListenOnLoopback()};
  const ReservedPorts nobody_ = *ReservedPorts::Reserve(1);
};

TEST_F(MovingNameTest, WhereItHasMovedToIsAskedOnceItIsLookedUpAgain) {
  Answer(At(nobody_.numbers()[0]));
  ListenerProbe probe("moving:1", [this](const std::string&) { return Next(); });
  EXPECT_TRUE(probe.NobodyListens());
  Answer(At(PortOf(listener_)));
  probe.LookUpAgain();
  EXPECT_TRUE(AwaitListener(probe));
}

TEST_F(MovingNameTest, WithoutAnAnswerTheAddressStays) {
  Answer(At(nobody_.numbers()[0]));
  ListenerProbe probe("moving:1", [this](const std::string&) { return Next(); });
  Answer("");
  probe.LookUpAgain();
  while (looked_up_ < 2) {
  }
  EXPECT_TRUE(probe.NobodyListens());
}

}  // namespace
}  // namespace dp::worker
