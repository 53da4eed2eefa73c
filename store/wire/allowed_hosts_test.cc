#include "store/wire/allowed_hosts.h"

#include <ifaddrs.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <optional>

#include "base/socket_end.h"
#include "base/testing/settable_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/wire/socket.h"

namespace dp::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kElsewhere[] = "192.0.2.1";  // for documentation, so no host has it

// A connection within this host, as its listening end sees it.
class AllowedHostsTest : public ::testing::Test {
 protected:
  void Connect(const std::string& listen_at, const std::string& to) {
    listener_ = *Listen(listen_at, 0);
    client_ = *wire::Connect(to, *PortOf(listener_.get()), absl::Seconds(30));
    ASSERT_TRUE(AwaitSocket(listener_.get(), POLLIN, absl::Seconds(30)).ok());
    accepted_ = FileDescriptor(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(accepted_.valid());
  }
  absl::Status Check(const std::vector<std::string>& hosts) {
    return AllowedHosts(hosts).Check(accepted_.get());
  }
  // An address of this host that is not loopback.
  static std::optional<std::string> OtherAddress() {
    ifaddrs* found = nullptr;
    if (getifaddrs(&found) != 0) return std::nullopt;
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(found, freeifaddrs);
    for (const ifaddrs* each = found; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
      sockaddr_storage address{};
      std::memcpy(&address, each->ifa_addr, sizeof(sockaddr_in));
      if (SocketHost(address).rfind("127.", 0) != 0) return SocketHost(address);
    }
    return std::nullopt;
  }

  FileDescriptor listener_, client_, accepted_;
};

TEST_F(AllowedHostsTest, TheAddressOfAHostIsServed) {
  Connect("127.0.0.1", "127.0.0.1");
  EXPECT_EQ(Check({kElsewhere, "127.0.0.1"}), absl::OkStatus());
}

TEST_F(AllowedHostsTest, AnyOtherAddressIsRefusedByName) {
  Connect("127.0.0.1", "127.0.0.1");
  const absl::Status refused = Check({kElsewhere});
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(refused.message(), HasSubstr("at 127.0.0.1 has connected"));
  EXPECT_EQ(Check({}).code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(AllowedHostsTest, AnIpv4CallerOfAnIpv6SocketHasItsIpv4Address) {
  Connect("", "127.0.0.1");
  EXPECT_EQ(Check({"127.0.0.1"}), absl::OkStatus());
  EXPECT_FALSE(Check({kElsewhere}).ok());
}

TEST_F(AllowedHostsTest, AllAddressesOfThisHostAreOneHost) {
  const auto other = OtherAddress();
  if (!other.has_value()) GTEST_SKIP() << "this host has no address but loopback";
  Connect("127.0.0.1", "127.0.0.1");
  EXPECT_EQ(Check({*other}), absl::OkStatus());
  Connect(*other, *other);
  EXPECT_EQ(Check({"127.0.0.1"}), absl::OkStatus());
  EXPECT_FALSE(Check({kElsewhere}).ok());
}

TEST_F(AllowedHostsTest, ANameStandsForItsAddresses) {
  Connect("127.0.0.1", "127.0.0.1");
  EXPECT_EQ(Check({"localhost"}), absl::OkStatus());
}

TEST_F(AllowedHostsTest, ANameWithoutAddressServesNobodyAndIsTold) {
  Connect("127.0.0.1", "127.0.0.1");
  EXPECT_EQ(Check({"no host", "127.0.0.1"}), absl::OkStatus());
  AllowedHosts hosts({"no host", kElsewhere});
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_THAT(hosts.Check(accepted_.get()).message(),
                HasSubstr("no host of the job; no address for host 'no host'"));
  }
}

// Each stranger who connects would make the resolver block the thread again.
TEST_F(AllowedHostsTest, ANameWithoutAddressIsResolvedLessAndLessOften) {
  Connect("127.0.0.1", "127.0.0.1");
  SettableClock clock;
  int attempts = 0;
  AllowedHosts hosts({"late"}, clock, [&](const std::string&) {
    ++attempts;
    return absl::UnavailableError("no answer");
  });
  std::vector<int> seconds;  // at which it was resolved
  for (int second = 0; second < 40; ++second, clock.Advance(absl::Seconds(1))) {
    for (int i = 0; i < 3; ++i) {
      const int before = attempts;
      EXPECT_THAT(hosts.Check(accepted_.get()).message(),
                  HasSubstr("no host of the job; no answer"));
      if (attempts > before) seconds.push_back(second);
    }
  }
  EXPECT_THAT(seconds, ElementsAre(0, 1, 3, 7, 15, 25, 35));
}

TEST_F(AllowedHostsTest, ANameThatGetsItsAddressLaterIsServed) {
  Connect("127.0.0.1", "127.0.0.1");
  SettableClock clock;
  bool known = false;
  AllowedHosts hosts({"late"}, clock,
                     [&](const std::string&) -> absl::StatusOr<std::vector<sockaddr_storage>> {
                       if (known) return AddressesOf("127.0.0.1");
                       return absl::UnavailableError("no answer");
                     });
  EXPECT_FALSE(hosts.Check(accepted_.get()).ok());
  known = true;
  EXPECT_FALSE(hosts.Check(accepted_.get()).ok());
  clock.Advance(AllowedHosts::kPauseMin);
  EXPECT_EQ(hosts.Check(accepted_.get()), absl::OkStatus());
}

}  // namespace
}  // namespace dp::wire
