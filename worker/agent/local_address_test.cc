#include "worker/agent/local_address.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

TEST(LocalAddressTest, TheWayToThisHostItselfIsLoopback) {
  EXPECT_EQ(*LocalAddressTowards("127.0.0.1:7070"), "127.0.0.1");
}

TEST(LocalAddressTest, RanksListenOnAnAddressOfThisHostOnly) {
  EXPECT_EQ(CheckOwnAddress("127.0.0.1"), absl::OkStatus());
  // 192.0.2.0/24 is for documentation: no host has an address of it.
  for (const char* wrong : {"192.0.2.1", "0.0.0.0", "::"}) {
    const absl::Status status = CheckOwnAddress(wrong);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong << ": " << status;
  }
}

}  // namespace
}  // namespace dp::worker
