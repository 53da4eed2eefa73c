#include "worker/agent/stores/reserved_ports.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <set>

#include "gtest/gtest.h"

namespace dp::worker {
namespace {

// Whether a server could listen on the port.
bool CanListen(int port, bool reuse) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  const int on = reuse ? 1 : 0;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  return bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
         listen(socket.get(), 1) == 0;
}

TEST(ReservedPortsTest, EachPortIsAnother) {
  const auto ports = ReservedPorts::Reserve(20);
  ASSERT_TRUE(ports.ok()) << ports.status();
  const std::set<int> different(ports->numbers().begin(), ports->numbers().end());
  EXPECT_EQ(different.size(), 20u);
}

TEST(ReservedPortsTest, AServerMayListenThereOneAfterTheOther) {
  const auto ports = ReservedPorts::Reserve(1);
  ASSERT_TRUE(ports.ok()) << ports.status();
  EXPECT_TRUE(CanListen(ports->numbers()[0], /*reuse=*/true));
  EXPECT_TRUE(CanListen(ports->numbers()[0], /*reuse=*/true));
}

TEST(ReservedPortsTest, ThePortIsTakenForWhoDoesNotKnowOfItUntilItIsGivenBack) {
  auto ports = ReservedPorts::Reserve(1);
  ASSERT_TRUE(ports.ok()) << ports.status();
  const int port = ports->numbers()[0];
  EXPECT_FALSE(CanListen(port, /*reuse=*/false));
  { const ReservedPorts gone = *std::move(ports); }
  EXPECT_TRUE(CanListen(port, /*reuse=*/false));
}

}  // namespace
}  // namespace dp::worker
