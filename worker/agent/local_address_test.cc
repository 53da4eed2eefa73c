#include "worker/agent/local_address.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::StartsWith;

TEST(LocalAddressTest, TheWayToThisHostItselfIsLoopback) {
  EXPECT_EQ(*LocalAddressTowards("127.0.0.1:7070"), "127.0.0.1");
}

TEST(LocalAddressTest, RanksListenOnAnAddressOfThisHostOnly) {
  EXPECT_EQ(CheckOwnAddress("127.0.0.1"), absl::OkStatus());
  for (const char* wrong : {"0.0.0.0", "::"}) {
    const absl::Status status = CheckOwnAddress(wrong);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong << ": " << status;
  }
}

TEST(LocalAddressTest, AnAddressThatThisHostDoesNotHaveYetMayComeLater) {
  // 192.0.2.0/24 is for documentation, so no host has such an address. No name has two dots in a
  // row.
  for (const char* later : {"192.0.2.1", "no..host"}) {
    const absl::Status status = CheckOwnAddress(later);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << later << ": " << status;
  }
}

TEST(LocalAddressTest, AnAddressThatDoesNotResolveSaysWhyAndWhatToDo) {
  const absl::Status status = CheckOwnAddress("no..host");
  EXPECT_THAT(std::string(status.message()),
              AllOf(StartsWith("--address no..host does not resolve ("),
                    EndsWith("); correct it, or wait for the name server")));
}

}  // namespace
}  // namespace dp::worker
