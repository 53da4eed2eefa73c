#include "worker/agent/stores/peer_owner.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/wire/socket.h"
#include "worker/agent/processes/cgroup_paths.h"

namespace dp::worker {
namespace {

constexpr absl::Duration kConnectPatience = absl::Seconds(30);
using testing::HasSubstr;

constexpr uid_t kNobody = 65534;

ServedRanks RanksOf(uid_t user) { return {JobId(7), Generation(1), user}; }

class PeerOwnerTest : public testing::Test {
 protected:
  // The other end of a new connection to `listener`.
  FileDescriptor Accepted(const FileDescriptor& listener) {
    EXPECT_TRUE(wire::AwaitSocket(listener.get(), POLLIN, kConnectPatience).ok());
    return FileDescriptor(accept(listener.get(), nullptr, nullptr));
  }
  // Connects to `to` and asks who has, from the server's end.
  absl::StatusOr<PeerOwner> OwnerOfConnectionTo(const std::string& listens, const std::string& to) {
    const FileDescriptor listener = *wire::Listen(listens, 0);
    const auto client = wire::Connect(to, *wire::PortOf(listener.get()), kConnectPatience);
    EXPECT_TRUE(client.ok()) << client.status();
    return OwnerOfPeer(Accepted(listener).get());
  }
};

TEST_F(PeerOwnerTest, TheOwnerOfALocalConnectionIsFoundInEitherFamily) {
  EXPECT_EQ(OwnerOfConnectionTo("127.0.0.1", "127.0.0.1")->user, geteuid());
  EXPECT_EQ(OwnerOfConnectionTo("::1", "::1")->user, geteuid());
  EXPECT_EQ(OwnerOfConnectionTo("", "127.0.0.1")->user, geteuid());  // an IPv4-mapped address
}

TEST_F(PeerOwnerTest, TheCgroupOfALocalConnectionIsThatOfItsProcess) {
  struct stat own {};
  const std::string dir = OwnCgroupPaths()[kCgroup2];
  if (dir.empty() || stat(dir.c_str(), &own) != 0) GTEST_SKIP() << "no v2 cgroup is shown here";
  EXPECT_EQ(OwnerOfConnectionTo("127.0.0.1", "127.0.0.1")->socket.cgroup, own.st_ino);
}

TEST_F(PeerOwnerTest, AProcessOfThisUserThatNoRankHasStartedIsRefused) {
  const absl::StatusOr<PeerOwner> owner = OwnerOfConnectionTo("127.0.0.1", "127.0.0.1");
  const absl::Status refused = CheckOwner(*owner, RanksOf(geteuid()), RankProcesses());
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(refused.message(), HasSubstr("that no rank of job 7 has started"));
}

TEST_F(PeerOwnerTest, TheUserOfTheRanksAndRootAreServedAndNobodyElse) {
  constexpr uid_t kAnn = 1000;
  EXPECT_TRUE(CheckUser(kAnn, RanksOf(kAnn)).ok());
  EXPECT_TRUE(CheckUser(0, RanksOf(kAnn)).ok());
  EXPECT_EQ(CheckUser(kNobody, RanksOf(kAnn)).code(), absl::StatusCode::kPermissionDenied);
  // Root is no rank's user here; where it is, the process must be a rank's.
  EXPECT_TRUE(CheckOwner({.user = 0, .socket = {}}, RanksOf(kAnn), RankProcesses()).ok());
  EXPECT_FALSE(CheckOwner({.user = 0, .socket = {}}, RanksOf(0), RankProcesses()).ok());
}

// Its client could be anybody, and may have sent a request before.
TEST_F(PeerOwnerTest, NobodyOwnsAConnectionThatItsClientHasClosed) {
  const FileDescriptor listener = *wire::Listen("127.0.0.1", 0);
  auto client = wire::Connect("127.0.0.1", *wire::PortOf(listener.get()), kConnectPatience);
  const FileDescriptor served = Accepted(listener);
  *client = FileDescriptor();
  EXPECT_EQ(OwnerOfPeer(served.get()).status().code(), absl::StatusCode::kUnavailable);
}

class SocketAnswerTest : public testing::Test {
 protected:
  template <typename Struct>
  static std::string BytesOf(const Struct& value) {
    return {reinterpret_cast<const char*>(&value), sizeof(value)};
  }
  // An attribute whose head says that it has `size` bytes of a value.
  static std::string Attribute(uint16_t type, size_t size, const std::string& value) {
    rtattr head{};
    head.rta_type = type;
    head.rta_len = static_cast<uint16_t>(sizeof(head) + size);
    return BytesOf(head) + value;
  }
  static std::string Answer(uint32_t inode, const std::string& attributes) {
    inet_diag_msg found{};
    found.idiag_uid = 1000;
    found.idiag_inode = inode;
    nlmsghdr header{};
    header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    header.nlmsg_len = static_cast<uint32_t>(sizeof(header) + sizeof(found) + attributes.size());
    return BytesOf(header) + BytesOf(found) + attributes;
  }

  const std::string cgroup_ = Attribute(INET_DIAG_CGROUP_ID, 8, BytesOf(uint64_t{77}));
};

TEST_F(SocketAnswerTest, NamesTheUserTheInodeAndTheCgroup) {
  const std::string other = Attribute(INET_DIAG_SHUTDOWN, 1, std::string("\3\0\0\0", 4));
  for (const std::string& attributes : {cgroup_, other + cgroup_, cgroup_ + other}) {
    const auto owner = OwnerInAnswer(Answer(12345, attributes));
    ASSERT_TRUE(owner.ok()) << owner.status();
    EXPECT_EQ(owner->user, 1000u);
    EXPECT_EQ(owner->socket.inode, 12345u);
    EXPECT_EQ(owner->socket.cgroup, 77u);
  }
}

TEST_F(SocketAnswerTest, AnAttributeThatWasCutNamesNoCgroup) {
  for (const std::string& cut :
       {std::string(), cgroup_.substr(0, 3), cgroup_.substr(0, 4), cgroup_.substr(0, 11),
        Attribute(INET_DIAG_CGROUP_ID, 4, "1234") + std::string(8, '\1'),
        Attribute(0, 1000, "") + cgroup_, std::string(4, '\0') + cgroup_}) {
    EXPECT_EQ(OwnerInAnswer(Answer(12345, cut))->socket.cgroup, 0u) << cut.size();
  }
}

TEST_F(SocketAnswerTest, ASocketThatNoProcessHoldsAndHalfAnAnswerNameNobody) {
  EXPECT_TRUE(absl::IsNotFound(OwnerInAnswer(Answer(0, cgroup_)).status()));
  const std::string whole = Answer(12345, cgroup_);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_TRUE(absl::IsInternal(OwnerInAnswer(whole.substr(0, size)).status())) << size;
  }
}

TEST_F(PeerOwnerTest, TheKernelShowsItsTableHere) { EXPECT_TRUE(CheckSocketTable().ok()); }

TEST_F(PeerOwnerTest, AProcessOfAnotherUserIsNamedAndRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to act as another user";
  const FileDescriptor listener = *wire::Listen("127.0.0.1", 0);
  int end[2];
  ASSERT_EQ(pipe(end), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(end[1]);
    if (setuid(kNobody) != 0) _exit(1);
    const auto client = wire::Connect("127.0.0.1", *wire::PortOf(listener.get()), kConnectPatience);
    char none;
    _exit(read(end[0], &none, 1) == 0 ? 0 : 1);  // when the parent has asked
  }
  close(end[0]);
  const absl::StatusOr<PeerOwner> owner = OwnerOfPeer(Accepted(listener).get());
  close(end[1]);
  waitpid(child, nullptr, 0);
  ASSERT_TRUE(owner.ok()) << owner.status();
  EXPECT_EQ(owner->user, kNobody);
  const absl::Status refused = CheckOwner(*owner, RanksOf(geteuid()), RankProcesses());
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(refused.message(), HasSubstr("a process of user 65534 has connected"));
}

}  // namespace
}  // namespace dp::worker
