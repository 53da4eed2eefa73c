#include "worker/agent/stores/store_clients.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "store/wire/socket.h"

namespace dp::worker {
namespace {

constexpr char kPlace[] = "DP_JOB=7 DP_GENERATION=2 ";

// A server on loopback, and connected programs with environments of their own.
class StoreClientsTest : public ::testing::Test {
 protected:
  struct End {
    void operator()(std::FILE* program) { pclose(program); }
  };
  // A program as the server sees it.
  struct Program {
    std::unique_ptr<std::FILE, End> process;  // it exits when its input is closed
    FileDescriptor accepted;
    std::string peer;
  };

  Program Connect(const std::string& environment) {
    const std::string command = absl::StrCat(
        "env ", environment, " bash -c 'exec 3<>/dev/tcp/127.0.0.1/", port_, "; read -r line'");
    Program program;
    program.process.reset(popen(command.c_str(), "w"));
    EXPECT_TRUE(wire::AwaitSocket(listener_.get(), POLLIN, absl::Minutes(1)).ok());
    program.accepted = FileDescriptor(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_TRUE(program.accepted.valid());
    program.peer = wire::PeerOf(program.accepted.get()).value_or("");
    return program;
  }
  // "3 at 127.0.0.1:40312", for ranks of job 7, generation 2, whose store is at `port`.
  std::string FindAt(uint16_t port) {
    const StorePortOf stores{{{JobId(7), Generation(2)}, port}};
    return absl::StrJoin(search_.Find(stores), ", ", [](std::string* out, const StoreClient& each) {
      absl::StrAppend(out, each.rank, " at ", each.end);
    });
  }
  std::string Find() { return FindAt(port_); }

  const FileDescriptor listener_ = *wire::Listen("127.0.0.1", 0);
  const uint16_t port_ = *wire::PortOf(listener_.get());
  StoreClientSearch search_;
};

TEST_F(StoreClientsTest, EachRankIsFoundWithItsEndOfTheConnectionAsTheServerSeesIt) {
  const Program third = Connect(absl::StrCat(kPlace, "DP_RANK=3"));
  EXPECT_EQ(Find(), absl::StrCat("3 at ", third.peer));
  const Program fifth = Connect(absl::StrCat(kPlace, "DP_RANK=5"));
  EXPECT_EQ(Find(), absl::StrCat("3 at ", third.peer, ", 5 at ", fifth.peer));
}

TEST_F(StoreClientsTest, AConnectionThatHasEndedIsNotFoundAnyMore) {
  Program third = Connect(absl::StrCat(kPlace, "DP_RANK=3"));
  EXPECT_NE(Find(), "");
  third.process.reset();
  EXPECT_EQ(Find(), "");
}

TEST_F(StoreClientsTest, AProcessOfAnotherGenerationOrJobIsNone) {
  const Program of_other_job = Connect("DP_JOB=70 DP_GENERATION=2 DP_RANK=3");
  const Program of_other_generation = Connect("DP_JOB=7 DP_GENERATION=1 DP_RANK=3");
  const Program of_none = Connect("DP_JOB=");
  EXPECT_EQ(Find(), "");
}

TEST_F(StoreClientsTest, AConnectionToAnotherPortIsNone) {
  const FileDescriptor other = *wire::Listen("127.0.0.1", 0);
  const Program third = Connect(absl::StrCat(kPlace, "DP_RANK=3"));
  EXPECT_EQ(FindAt(*wire::PortOf(other.get())), "");
  EXPECT_NE(Find(), "");
}

TEST_F(StoreClientsTest, AnEnvironmentWithoutAValidRankIsOfNone) {
  const auto rank_in = [](const char* rank) {
    const std::string zero(1, '\0');
    return RankInEnvironment(absl::StrCat("A=1", zero, "DP_JOB=7", zero, "DP_GENERATION=2", zero,
                                          "DP_RANK=", rank, zero));
  };
  EXPECT_EQ(rank_in("3"), (StoreClient{JobId(7), Generation(2), 3}));
  for (const char* wrong : {"", "x", "-1", "10000", "2147483648"}) {
    EXPECT_EQ(rank_in(wrong), std::nullopt) << wrong;
  }
}

TEST_F(StoreClientsTest, AnEndThatIsNoneIsLeftOut) {
  const auto found = [](absl::string_view local, absl::string_view remote) {
    StoreSockets sockets;
    AddStoreSocket(absl::StrCat("0: ", local, " ", remote, " 01 0:0 0:0 0 1000 0 4711 1"),
                   {{{JobId(7), Generation(2)}, 80}}, &sockets);
    return sockets;
  };
  const StoreSockets wanted{{"socket:[4711]", {"127.0.0.1:40000", 80}}};
  EXPECT_EQ(found("0100007F:9C40", "0100007F:0050"), wanted);
  EXPECT_TRUE(found("0100007F:9C40", "0100007F:10050").empty());
  EXPECT_TRUE(found("0100007F:0000", "0100007F:0050").empty());
  EXPECT_TRUE(found("0100007F:9C40", "0100007F").empty());
  EXPECT_TRUE(found("9C40", "0100007F:0050").empty());
}

TEST_F(StoreClientsTest, NothingIsFoundWhereThereIsNoStore) {
  const Program third = Connect(absl::StrCat(kPlace, "DP_RANK=3"));
  EXPECT_TRUE(search_.Find({}).empty());
}

}  // namespace
}  // namespace dp::worker
