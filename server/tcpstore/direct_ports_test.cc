#include "server/tcpstore/direct_ports.h"

#include <gtest/gtest.h>

#include <string>

#include "dp/v1/jobs.pb.h"
#include "store/wire/socket.h"

namespace dp::server {
namespace {

core::Job JobWith(const std::string& store) {
  v1::JobSpec spec;
  spec.mutable_command()->set_store(store);
  core::Job job;
  job.spec.payload = spec.SerializeAsString();
  return job;
}

class DirectPortsTest : public ::testing::Test {
 protected:
  bool Free() const { return wire::Listen("127.0.0.1", port_).ok(); }
  bool Reached() const { return wire::Connect("127.0.0.1", port_, absl::Seconds(30)).ok(); }

  const uint16_t port_ = *wire::PortOf(wire::Listen("127.0.0.1", 0)->get());
  DirectPorts ports_{"127.0.0.1"};
};

TEST_F(DirectPortsTest, APortIsKeptFromItsChoiceOnAndRanksMayComeBeforeItIsServed) {
  EXPECT_TRUE(ports_.Keep(JobWith("direct"), port_));
  EXPECT_FALSE(Free());
  EXPECT_TRUE(Reached());
  const FileDescriptor listener = ports_.Take(port_);
  EXPECT_TRUE(listener.valid());
  ports_.DropOthers();
  EXPECT_FALSE(Free());
}

TEST_F(DirectPortsTest, APortThatAnotherProgramHasIsOfNoUse) {
  const auto other = wire::Listen("127.0.0.1", port_);
  EXPECT_FALSE(ports_.Keep(JobWith("direct"), port_));
  EXPECT_FALSE(ports_.Take(port_).valid());
}

TEST_F(DirectPortsTest, APortThatWasKeptInVainIsForTheNextJobOrForNobody) {
  EXPECT_TRUE(ports_.Keep(JobWith("direct"), port_));
  EXPECT_TRUE(ports_.Keep(JobWith("direct"), port_));
  ports_.DropOthers();
  EXPECT_TRUE(Free());
}

TEST_F(DirectPortsTest, APortOfAJobThatADaemonServesIsLeftToThatDaemon) {
  EXPECT_TRUE(ports_.Keep(JobWith("direct"), port_));
  EXPECT_TRUE(ports_.Keep(JobWith("rank0"), port_));
  EXPECT_TRUE(Free());
  EXPECT_FALSE(ports_.Take(port_).valid());
}

}  // namespace
}  // namespace dp::server
