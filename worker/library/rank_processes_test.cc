#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/check.h"
#include "base/file_descriptor.h"
#include "base/testing/scratch_dir.h"
#include "dp/ddp.h"
#include "dp/distributed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/testing/group_processes.h"
#include "worker/library/testing/listed_module.h"
#include "worker/library/testing/thrown.h"

// The default group, with ranks that are processes, over every init method.

namespace dp::distributed {
namespace {

using engine::Process;
using engine::World;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr auto kPatience = std::chrono::minutes(1);

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

// The kind and message of an error, as a rank says them.
std::string Say(const DistError& error) {
  return std::to_string(static_cast<int>(error.kind())) + " " + error.what();
}

using Line = Process::Line;

// Runs `body`, which returns what the rank says at its end.
std::unique_ptr<Process> Rank(const std::function<std::string(const Line&)>& body) {
  return std::make_unique<Process>([body](const Line& line) {
    try {
      line.Say(body(line));
    } catch (const DistError& error) {
      line.Say(Say(error));
    }
    line.AwaitCommand();
  });
}

// Joins the default group, adds up the ranks, and leaves.
std::string SumOfRanks(const InitOptions& options) {
  init_process_group(options);
  std::vector<float> sum = {float(get_rank())};
  all_reduce(sum);
  const std::string said = get_backend() + " " + std::to_string(int(sum[0]));
  destroy_process_group();
  return said;
}

InitOptions At(const std::string& method, int rank, int size) {
  return {.init_method = method, .world_size = size, .rank = rank, .timeout = kPatience};
}

class RankProcessesTest : public ::testing::Test {
 protected:
  // Starts ranks of which each runs `body`.
  World Start(int size, const std::function<std::string(int rank, const Line&)>& body) {
    World world;
    for (int rank = 0; rank < size; ++rank)
      world.push_back(Rank([=](const Line& line) { return body(rank, line); }));
    return world;
  }
  std::string Url() const { return "file://" + path(); }
  std::string path() const { return (scratch_.path() / "meeting").string(); }

  ScratchDir scratch_;
};

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
    return SumOfRanks({.backend = "gloo", .timeout = kPatience});
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
      return SumOfRanks({.world_size = 2, .timeout = kPatience});
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
      return SumOfRanks({.init_method = "dp://", .timeout = kPatience});
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

std::string InGroupOfZeroAndTwo(int rank) {
  const std::vector<int> members = {2, 0};
  const ProcessGroup group = new_group(members, "gloo");
  if (!group) return std::to_string(get_rank(group));
  std::vector<float> sum = {float(rank)}, from_zero = {float(rank) + 5};
  all_reduce(sum, ReduceOp::kSum, group);
  broadcast(from_zero, 0, group);
  const DistError error = library::ErrorOf([&] { broadcast(sum, 1, group); });
  return std::to_string(get_rank(group)) + " of " + std::to_string(group.size()) + " " +
         group.backend() + " " + std::to_string(int(sum[0])) + " " +
         std::to_string(int(from_zero[0])) + " " + error.what();
}

TEST_F(RankProcessesTest, AGroupOfSomeRanksHasItsOwnNumbers) {
  if (!is_gloo_available()) GTEST_SKIP() << "no Gloo";
  World world = Start(3, [&](int rank, const Line&) {
    init_process_group(At(Url(), rank, 3));
    const std::string said = InGroupOfZeroAndTwo(rank);
    destroy_process_group();
    return said;
  });
  EXPECT_THAT(world[0]->Hear(), HasSubstr("1 of 2 gloo 2 5 group 'group_1', rank 1: rank 1 is not "
                                          "in the group; give one of 2, 0"));
  EXPECT_EQ(world[1]->Hear(), "-1");
  EXPECT_THAT(world[2]->Hear(), HasSubstr("0 of 2 gloo 2 5 "));
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(RankProcessesTest, AGroupTakesTheDefaultBackendOrOneInAnyCaseAndIsLeftAlone) {
  if (!is_gloo_available()) GTEST_SKIP() << "no Gloo";
  World world = Start(2, [&](int rank, const Line&) {
    InitOptions options = At(Url(), rank, 2);
    options.backend = "gloo";
    init_process_group(options);
    const std::vector<int> both = {0, 1};
    const ProcessGroup inherits = new_group(both), named = new_group(both, "ShM");
    const std::string backends = get_backend(inherits) + " " + get_backend(named) + " ";
    destroy_process_group(inherits);
    barrier(named);
    barrier();
    const DistError left = library::ErrorOf([&] { barrier(inherits); });
    destroy_process_group();
    return backends + left.what();
  });
  EXPECT_EQ(world[0]->Hear(),
            "gloo shm group 'group_1', rank 0 has left it by destroy_process_group; join again");
  EXPECT_THAT(world[1]->Hear(), HasSubstr("gloo shm group 'group_1', rank 1 has left it"));
}

TEST_F(RankProcessesTest, AGroupHasATimeLimitOfItsOwn) {
  World world = Start(2, [&](int rank, const Line& line) {
    init_process_group(At(Url(), rank, 2));
    const std::vector<int> both = {0, 1};
    const ProcessGroup limited = new_group(both, {}, std::chrono::seconds(3));
    if (rank == 1) line.AwaitCommand();
    if (rank == 0) line.Say(Say(library::ErrorOf([&] { barrier(limited); })));
    barrier();  // the default group goes on
    return std::string("passed");
  });
  EXPECT_THAT(world[0]->Hear(), HasSubstr("group 'group_1', rank 0: barrier 1: rank 1 did not "
                                          "arrive within 3s"));
  world[1]->Command();
  for (const auto& rank : world) EXPECT_EQ(rank->Hear(), "passed");
}

// The first value of the replica at first, and its gradient after a backward.
std::string TrainIn(const ProcessGroup& group, int rank) {
  library::ListedModule module({{"w", {float(rank + 1)}}});
  DistributedDataParallel ddp(module, {.process_group = group});
  ddp.begin_forward();
  module.Add(0, float(rank + 1));
  ddp.gradient_ready(0);
  ddp.finish_backward();
  return std::to_string(int(module.values[0].values[0])) + " " +
         std::to_string(int(module.gradients[0][0]));
}

TEST_F(RankProcessesTest, ReplicasAreThoseOfTheGroupThatIsGiven) {
  World world = Start(3, [&](int rank, const Line&) {
    init_process_group(At(Url(), rank, 3));
    const std::vector<int> members = {2, 0};
    const ProcessGroup group = new_group(members);
    const std::string said =
        group ? TrainIn(group, rank) : Say(library::ErrorOf([&] { TrainIn(group, rank); }));
    destroy_process_group();
    return said;
  });
  EXPECT_EQ(world[0]->Hear(), "3 2");  // rank 2 is the first of the group
  EXPECT_EQ(world[2]->Hear(), "3 2");
  EXPECT_THAT(world[1]->Hear(), HasSubstr("process_group is an empty handle: this rank is no"));
}

TEST_F(RankProcessesTest, AGroupOfWrongRanksIsRejected) {
  const auto rank = Rank([&](const Line&) {
    init_process_group(At(Url(), 0, 1));
    const std::vector<int> none, twice = {0, 0}, outside = {1};
    return Say(library::ErrorOf([&] { new_group(none); })) + " | " +
           Say(library::ErrorOf([&] { new_group(twice); })) + " | " +
           Say(library::ErrorOf([&] { new_group(outside); }));
  });
  EXPECT_EQ(rank->Hear(),
            "0 group 'default', rank 0: new_group of ranks ; give one rank at least, and each once "
            "| 0 group 'default', rank 0: new_group of ranks 0, 0; give one rank at least, and "
            "each once | 0 group 'default', rank 0: rank 1 is not in the group; give 0 to 0");
}

// The error of every rank, whose list of ranks or backend differs from that of another rank.
class DifferingGroupsTest : public RankProcessesTest {
 protected:
  struct Call {
    std::vector<int> ranks;
    std::string backend = {};
  };
  World StartWith(const std::vector<Call>& calls) {
    return Start(int(calls.size()), [=, this](int rank, const Line&) {
      init_process_group(At(Url(), rank, int(calls.size())));
      const Call& call = calls[rank];
      return Say(library::ErrorOf([&] { new_group(call.ranks, call.backend); }));
    });
  }
  // Every rank states the difference that it or another has found.
  static void ExpectMismatch(const World& world, const std::vector<std::string>& texts) {
    for (const auto& rank : world) {
      const std::string said = rank->Hear();
      EXPECT_THAT(said, StartsWith("5 group 'default', rank "));
      EXPECT_THAT(said, HasSubstr(": new_group 1: rank "));
      for (const std::string& text : texts) EXPECT_THAT(said, HasSubstr(text));
      EXPECT_THAT(said, EndsWith("; call the same operation with the same arguments on every "
                                 "rank"));
    }
  }
};

TEST_F(DifferingGroupsTest, ListsInAnotherOrderAreAMismatchOnEveryRank) {
  ExpectMismatch(StartWith({{{0, 1}}, {{1, 0}}}),
                 {"rank 0 gives ranks 0, 1 and backend auto", "rank 1 gives ranks 1, 0 and"});
}

TEST_F(DifferingGroupsTest, ListsOfOtherRanksAreAMismatchOnEveryRank) {
  ExpectMismatch(StartWith({{{0, 1, 2}}, {{0, 1, 2}}, {{1, 2}}}),
                 {" gives ranks 0, 1, 2 and backend auto", "rank 2 gives ranks 1, 2 and"});
}

TEST_F(DifferingGroupsTest, OtherBackendsAreAMismatchOnEveryRank) {
  if (!is_gloo_available()) GTEST_SKIP() << "no Gloo";
  ExpectMismatch(StartWith({{{0, 1}, "shm"}, {{0, 1}, "Gloo"}}),
                 {"rank 0 gives ranks 0, 1 and backend shm",
                  "rank 1 gives ranks 0, 1 and backend "
                  "gloo"});
}

TEST_F(RankProcessesTest, ARankThatLeavesOutANewGroupGetsAMismatchAtItsNext) {
  World world = Start(3, [&](int rank, const Line&) {
    init_process_group(At(Url(), rank, 3));
    const std::vector<int> all = {0, 1, 2}, pair = {0, 2};
    if (rank != 2) return Say(library::ErrorOf([&] { new_group(all); }));
    return Say(library::ErrorOf([&] { new_group(pair); }));
  });
  for (const auto& rank : world)
    EXPECT_THAT(rank->Hear(), HasSubstr("rank 2 gives ranks 0, 2 and"));
}

TEST_F(RankProcessesTest, TimeLimitsArePositive) {
  const auto rank = Rank([&](const Line&) {
    init_process_group(At(Url(), 0, 1));
    const std::vector<int> self = {0};
    const std::chrono::milliseconds none(0), negative(-5);
    return Say(library::ErrorOf([&] { new_group(self, {}, none); })) + " | " +
           Say(library::ErrorOf([&] { monitored_barrier(default_group(), negative); }));
  });
  EXPECT_EQ(rank->Hear(),
            "0 group 'default', rank 0: new_group: timeout is 0 ms; give more than 0 | 0 group "
            "'default', rank 0: monitored_barrier: timeout is -5 ms; give more than 0");
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
