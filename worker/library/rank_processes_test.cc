#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/check.h"
#include "base/file_descriptor.h"
#include "dp/distributed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/testing/group_processes.h"
#include "worker/library/testing/rank_processes.h"
#include "worker/library/testing/thrown.h"

// The default group, with ranks that are processes, over every init method.

namespace dp::distributed {
namespace {

using engine::World;
using library::At;
using library::Line;
using library::Rank;
using library::RankProcessesTest;
using library::Say;
using ::testing::HasSubstr;

// A port of loopback that no other process gets. It is bound and does not listen; a server that
// reuses addresses can.
class FreePort {
 public:
  FreePort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    DP_CHECK(bind(socket_.get(), any, size) == 0 && getsockname(socket_.get(), any, &size) == 0);
    port_ = std::to_string(ntohs(address.sin_port));
  }
  const std::string& port() const { return port_; }

 private:
  FileDescriptor socket_;
  std::string port_;
};

// Joins the default group, adds up the ranks, and leaves.
std::string SumOfRanks(const InitOptions& options) {
  init_process_group(options);
  std::vector<float> sum = {float(get_rank())};
  all_reduce(sum);
  const std::string said = get_backend() + " " + std::to_string(int(sum[0]));
  destroy_process_group();
  return said;
}

TEST_F(RankProcessesTest, RanksMeetInAFileWhichTheyRemove) {
  World world = Start(3, [&](int rank, const Line&) { return SumOfRanks(At(Url(), rank, 3)); });
  for (const auto& rank : world) EXPECT_EQ(rank->Hear(), "shm 3");
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(RankProcessesTest, AFileWhoseMemberWasKilledIsAnError) {
  auto earlier = Rank([&](const Line& line) -> std::string {
    const FileStore store(path(), 2);
    line.Say("joined");
    line.AwaitCommand();
    return "";
  });
  ASSERT_EQ(earlier->Hear(), "joined");
  earlier.reset();
  const auto later = Rank([&](const Line&) { return SumOfRanks(At(Url(), 0, 2)); });
  const std::string said = later->Hear();
  EXPECT_THAT(said, HasSubstr("was left by a member that died, 0 of 1 live: it is of an earlier"));
  EXPECT_THAT(said, HasSubstr("remove it, or give each run a path of its own"));
}

TEST_F(RankProcessesTest, AFileWhereAnEarlierRunStillWaitsIsAnError) {
  auto earlier = Rank([&](const Line& line) {
    const FileStore store(path(), 2);
    store.add("dp/entered/0", 1);
    line.Say("joined");
    line.AwaitCommand();
    return std::string();
  });
  ASSERT_EQ(earlier->Hear(), "joined");
  const auto later = Rank([&](const Line&) { return SumOfRanks(At(Url(), 0, 2)); });
  EXPECT_THAT(later->Hear(), HasSubstr("another process has joined as rank 0; give each process"));
}

TEST_F(RankProcessesTest, AFileInNoDirectoryIsAnError) {
  const auto rank = Rank([&](const Line&) { return SumOfRanks(At(Url() + "/no/file", 0, 2)); });
  EXPECT_THAT(rank->Hear(), HasSubstr("no such directory"));
}

TEST_F(RankProcessesTest, Rank0ServesTheStoreOfAnAddressForOneGroupAfterAnother) {
  const FreePort free;
  const std::string method = "tcp://127.0.0.1:" + free.port();
  World world = Start(3, [&](int rank, const Line&) {
    return SumOfRanks(At(method, rank, 3)) + ", " + SumOfRanks(At(method, rank, 3));
  });
  for (const auto& rank : world) EXPECT_EQ(rank->Hear(), "shm 3, shm 3");
}

TEST_F(RankProcessesTest, ASecondProcessOfARankIsAnErrorAndNoHang) {
  const FreePort free;
  InitOptions options = At("tcp://127.0.0.1:" + free.port(), 0, 3);
  const auto zero = Rank([&](const Line&) { return SumOfRanks(options); });
  options.rank = 1;
  options.timeout = std::chrono::milliseconds(500);
  const auto one = Rank([&](const Line&) { return SumOfRanks(options); });
  const auto another = Rank([&](const Line&) { return SumOfRanks(options); });
  EXPECT_THAT(one->Hear() + another->Hear(),
              HasSubstr("another process has joined as rank 1; give each process a rank"));
}

TEST_F(RankProcessesTest, AnotherWorldSizeThanThatOfTheFirstRankIsAnError) {
  const auto zero = Rank([&](const Line& line) {
    const TcpStore store({.host = "127.0.0.1", .is_master = true});
    store.set("dp/world_size", "2");
    line.Say(std::to_string(store.port()));
    line.AwaitCommand();
    return std::string();
  });
  InitOptions options = At("tcp://127.0.0.1:" + zero->Hear(), 1, 3);
  options.timeout = std::chrono::milliseconds(500);
  const auto one = Rank([&](const Line&) { return SumOfRanks(options); });
  EXPECT_THAT(one->Hear(), HasSubstr("world_size is 3 on rank 1, and 2 on a rank that joined "
                                     "before; give every rank the same"));
}

TEST_F(RankProcessesTest, AGroupMayHaveAnotherSizeThanTheOneBeforeAtItsAddress) {
  const FreePort free;
  const std::string method = "tcp://127.0.0.1:" + free.port();
  World world = Start(3, [&](int rank, const Line&) {
    const std::string of_three = SumOfRanks(At(method, rank, 3));
    return rank == 2 ? of_three : of_three + ", " + SumOfRanks(At(method, rank, 2));
  });
  EXPECT_EQ(world[0]->Hear(), "shm 3, shm 1");
  EXPECT_EQ(world[1]->Hear(), "shm 3, shm 1");
  EXPECT_EQ(world[2]->Hear(), "shm 3");
}

// Ranks of two users cannot share memory. Only root can become another user.
class TwoUsersTest : public RankProcessesTest {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    if (!is_gloo_available()) GTEST_SKIP() << "no Gloo";
  }
  World Start(const std::string& backend) {
    const std::string method = "tcp://127.0.0.1:" + free_.port();
    return RankProcessesTest::Start(2, [=](int rank, const Line&) {
      constexpr uid_t kNobody = 65534;
      DP_CHECK(rank == 0 || setuid(kNobody) == 0);
      InitOptions options = At(method, rank, 2);
      options.backend = backend;
      return SumOfRanks(options);
    });
  }

 private:
  const FreePort free_;
};

TEST_F(TwoUsersTest, AutoTakesGlooOnEveryRank) {
  for (const auto& rank : Start("auto")) EXPECT_EQ(rank->Hear(), "gloo 1");
}

TEST_F(TwoUsersTest, ShmSaysWhyNotAndWhatToTake) {
  for (const auto& rank : Start("shm")) {
    const std::string said = rank->Hear();
    EXPECT_THAT(said, HasSubstr("backend shm: "));
    EXPECT_THAT(said, HasSubstr("user"));
    EXPECT_THAT(said, HasSubstr("; use backend auto or gloo"));
  }
}

class EnvironmentTest : public RankProcessesTest {
 protected:
  static void Set(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  }
};

TEST_F(EnvironmentTest, Rank0ServesTheStore) {
  if (!is_gloo_available()) GTEST_SKIP() << "no Gloo";
  const FreePort free;
  World world = Start(2, [&](int rank, const Line&) {
    Set({{"MASTER_ADDR", "127.0.0.1"},
         {"MASTER_PORT", free.port()},
         {"WORLD_SIZE", "2"},
         {"RANK", std::to_string(rank)}});
    return SumOfRanks({.backend = "gloo", .timeout = library::kPatience});
  });
  for (const auto& rank : world) EXPECT_EQ(rank->Hear(), "gloo 1");
}

// Ranks over Gloo that meet in a file. Each has one variable.
class GlooAddressTest : public EnvironmentTest {
 protected:
  void SetUp() override {
    if (!is_gloo_available()) GTEST_SKIP() << "no Gloo";
  }
  // Starts the first ranks of two, each with its value of the variable.
  World StartWith(const std::string& variable, const std::vector<std::string>& values) {
    return Start(int(values.size()), [=, this](int rank, const Line&) {
      Set({{variable, values[rank]}});
      InitOptions options = At(Url(), rank, 2);
      options.backend = "gloo";
      return SumOfRanks(options);
    });
  }
};

TEST_F(GlooAddressTest, AnInterfaceThatIsNotThereIsNamedWithTheOthers) {
  const std::string said = StartWith("GLOO_SOCKET_IFNAME", {"nonesuch0"})[0]->Hear();
  EXPECT_THAT(said, HasSubstr("interface 'nonesuch0' does not exist; this host has "));
  EXPECT_THAT(said, HasSubstr("; set GLOO_SOCKET_IFNAME to the interface, or DP_ADDRESS"));
}

TEST_F(GlooAddressTest, EveryRankListsAsManyInterfaces) {
  for (const auto& rank : StartWith("GLOO_SOCKET_IFNAME", {"lo", "lo,lo"}))
    EXPECT_THAT(rank->Hear(), HasSubstr("rank 0 lists the interfaces 'lo', rank 1 lists 'lo,lo'; "
                                        "give every rank as many"));
}

TEST_F(GlooAddressTest, AnAddressThatThisHostHasNotIsNamed) {
  const std::string said = StartWith("DP_ADDRESS", {"192.0.2.1"})[0]->Hear();
  EXPECT_THAT(said, HasSubstr("address '192.0.2.1'"));
  EXPECT_THAT(said, HasSubstr("or DP_ADDRESS to the address, at which peers reach this host"));
}

TEST_F(EnvironmentTest, ALaunchersStoreIsUsedAndOutlivesItsRanks) {
  auto launcher = Rank([](const Line& line) {
    const TcpStore store({.host = "127.0.0.1", .is_master = true});
    line.Say(std::to_string(store.port()));
    line.AwaitCommand();
    return std::string();
  });
  const std::string port = launcher->Hear();
  for (const char* attempt : {"0", "1"}) {
    World world = Start(2, [&](int rank, const Line&) {
      Set({{"MASTER_ADDR", "127.0.0.1"},
           {"MASTER_PORT", port},
           {"TORCHELASTIC_USE_AGENT_STORE", "True"},
           {"TORCHELASTIC_RESTART_COUNT", attempt},
           {"RANK", std::to_string(rank)}});
      if (rank == 1 && attempt[0] == '0') return SumOfRanks({.world_size = 2}).substr(0, 5);
      return SumOfRanks({.world_size = 2, .timeout = library::kPatience});
    });
    EXPECT_EQ(world[0]->Hear(), "shm 1");
  }
}

// The program's own variables say other things than the job.
TEST_F(EnvironmentTest, AJobGivesItsRanksTheirPlaceAndItsStore) {
  auto daemon = Rank([](const Line& line) {
    const TcpStore store({.host = "127.0.0.1", .is_master = true});
    line.Say(std::to_string(store.port()));
    line.AwaitCommand();
    return std::string();
  });
  const std::string port = daemon->Hear();
  for (const char* generation : {"1", "2"}) {
    World world = Start(2, [&](int rank, const Line&) {
      Set({{"MASTER_ADDR", "127.0.0.1"},
           {"MASTER_PORT", port},
           {"TORCHELASTIC_USE_AGENT_STORE", "True"},
           {"RANK", "0"},
           {"WORLD_SIZE", "1"},
           {"DP_COORDINATOR", "head:7070"},
           {"DP_JOB", "7"},
           {"DP_GENERATION", generation},
           {"DP_RANK", std::to_string(rank)},
           {"DP_WORLD_SIZE", "2"}});
      return SumOfRanks({.init_method = "dp://", .timeout = library::kPatience});
    });
    for (const auto& rank : world) EXPECT_EQ(rank->Hear(), "shm 1");
  }
}

TEST_F(RankProcessesTest, ThereIsOneDefaultGroup) {
  const auto rank = Rank([&](const Line&) {
    EXPECT_FALSE(is_initialized());
    destroy_process_group();  // nothing to do
    const DistError none = library::ErrorOf([] { barrier(); });
    init_process_group(At(Url(), 0, 1));
    EXPECT_TRUE(is_initialized());
    const DistError twice = library::ErrorOf([&] { init_process_group(At(Url(), 0, 1)); });
    destroy_process_group(default_group());
    return Say(none) + " | " + Say(twice) + " | " + (is_initialized() ? "still there" : "gone");
  });
  EXPECT_EQ(rank->Hear(),
            "2 there is no default process group; call init_process_group first | 2 the default "
            "process group exists already; call destroy_process_group first | gone");
}

TEST_F(RankProcessesTest, AKilledRankIsNamedByTheOthers) {
  World world = Start(3, [&](int rank, const Line& line) {
    init_process_group(At(Url(), rank, 3));
    line.Say("joined");
    if (rank == 1) line.AwaitCommand();
    barrier();
    return std::string();
  });
  for (const auto& rank : world) ASSERT_EQ(rank->Hear(), "joined");
  world[1]->Signal(SIGKILL);
  for (const int rank : {0, 2}) {
    EXPECT_THAT(world[rank]->Hear(), HasSubstr("rank 1 went away; the output of that rank says"));
  }
}

TEST_F(RankProcessesTest, ARankThatExitsWithoutLeavingIsNamedAtOnce) {
  World world = Start(2, [&](int rank, const Line& line) {
    init_process_group(At(Url(), rank, 2));
    if (rank == 1) line.AwaitCommand();
    if (rank == 1) std::exit(0);
    barrier();
    return std::string();
  });
  world[1]->Command();
  EXPECT_THAT(world[0]->Hear(), HasSubstr("rank 1 went away"));
}

}  // namespace
}  // namespace dp::distributed
