#include "worker/agent/listener_probe.h"

#include <string>

#include "gtest/gtest.h"
#include "worker/agent/reserved_ports.h"

namespace dp::worker {
namespace {

TEST(ListenerProbeTest, APortThatIsBoundButNotListenedOnRefuses) {
  const auto port = ReservedPorts::Reserve(1);
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_TRUE(ListenerProbe("127.0.0.1:" + std::to_string(port->numbers()[0])).NobodyListens());
}

TEST(ListenerProbeTest, ANameThatIsNoneTellsNothing) {
  EXPECT_FALSE(ListenerProbe("no such host:1").NobodyListens());
  EXPECT_FALSE(ListenerProbe("127.0.0.1").NobodyListens());
}

}  // namespace
}  // namespace dp::worker
