#include "dp/spawn.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <latch>
#include <new>
#include <sstream>
#include <thread>

#include "base/check.h"
#include "base/file_descriptor.h"
#include "base/testing/scratch_dir.h"
#include "dp/distributed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/testing/group_processes.h"
#include "worker/library/spawn/rank_place.h"
#include "worker/library/testing/thrown.h"

// A program without threads of its own: spawn forks.

namespace dp::distributed {
namespace {

using library::ErrorOf;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kRanksMax = 8;

// Numbers that ranks leave for the test, in memory that all share.
class Board {
 public:
  Board()
      : slots_(new (mmap(nullptr, sizeof(Slots), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                         -1, 0)) Slots{}) {}
  ~Board() { munmap(slots_, sizeof(Slots)); }
  std::atomic<int>& operator[](int rank) const { return (*slots_)[rank]; }

 private:
  using Slots = std::array<std::atomic<int>, kRanksMax>;
  Slots* slots_;
};

// Blocks a rank until the test opens it, or for ever.
class Gate {
 public:
  Gate() { DP_CHECK(pipe(ends_) == 0); }
  ~Gate() {
    close(ends_[0]);
    Open();
  }
  // Once this process has opened the gate, ranks pass that have closed their copy.
  void Open() {
    if (ends_[1] >= 0) close(std::exchange(ends_[1], -1));
  }
  void Pass() {
    Open();
    char c;
    (void)!read(ends_[0], &c, 1);
  }

 private:
  int ends_[2];
};

bool HasNoChildren() { return waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }

SpawnError FailureOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const SpawnError& error) {
    return error;
  }
  ADD_FAILURE() << "no SpawnError";
  return {"(nothing thrown)", -1, -1, std::nullopt, std::nullopt};
}

void AddRanks(const Board& board) {
  init_process_group();
  std::vector<float> sum = {float(get_rank())};
  all_reduce(sum);
  board[get_rank()] = 100 * get_world_size() + int(sum[0]);
  destroy_process_group();
}

TEST(SpawnTest, RanksJoinTheDefaultGroupWithoutOptions) {
  const Board board;
  spawn([&](int) { AddRanks(board); }, 3);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(board[rank], 303) << rank;
  EXPECT_TRUE(HasNoChildren());
}

TEST(SpawnTest, RanksDoNotMeetInTheStoreOfALauncher) {
  setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  const Board board;
  spawn([&](int) { AddRanks(board); }, 2);
  unsetenv("TORCHELASTIC_USE_AGENT_STORE");
  EXPECT_EQ(board[1], 201);
}

TEST(SpawnTest, RanksOfSeveralHostsJoinOneGroup) {
  const auto port = library::ReservedPort::Open();
  ASSERT_TRUE(port.ok());
  SpawnOptions options{.join = false, .world_size = 4, .master_addr = "127.0.0.1"};
  options.master_port = port->port();
  const Board board;
  SpawnContext first = spawn([&](int) { AddRanks(board); }, 2, options);
  options.first_rank = 2;
  SpawnContext second = spawn([&](int) { AddRanks(board); }, 2, options);
  EXPECT_TRUE(first.join() && second.join());
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(board[rank], 406) << rank;
}

TEST(SpawnTest, AnExceptionIsThrownWithItsRankAndText) {
  const SpawnError error = FailureOf([] {
    spawn(
        [](int rank) {
          if (rank == 1) throw std::runtime_error("no such dataset");
        },
        2);
  });
  EXPECT_THAT(error.what(), AllOf(StartsWith("spawn: rank 1 (process "),
                                  HasSubstr(") threw an exception: no such dataset")));
  EXPECT_EQ(error.rank(), 1);
  EXPECT_EQ(error.exit_code(), 1);
  const SpawnError other = FailureOf([] { spawn([](int) { throw 7; }, 1); });
  EXPECT_THAT(other.what(),
              HasSubstr("threw an exception: one of unknown type; throw a std::exception"));
}

TEST(SpawnTest, AContextThatWasMovedFromSaysSo) {
  SpawnContext from = spawn([](int) {}, 1, {.join = false});
  SpawnContext to = std::move(from);
  for (const DistError& error : {ErrorOf([&] { from.join(); }), ErrorOf([&] { from.pids(); })}) {
    EXPECT_EQ(error.kind(), ErrorKind::kWrongState);
    EXPECT_THAT(error.what(), HasSubstr("the SpawnContext was moved from"));
  }
  EXPECT_TRUE(to.join());
}

TEST(SpawnTest, AnExitCodeOrASignalIsThrownWithItsRank) {
  const SpawnError left = FailureOf([] { spawn([](int rank) { _exit(rank == 2 ? 3 : 0); }, 3); });
  EXPECT_THAT(left.what(), AllOf(HasSubstr("rank 2 "), HasSubstr("exited with code 3")));
  EXPECT_EQ(left.exit_code(), 3);
  const SpawnError killed = FailureOf([] { spawn([](int) { raise(SIGKILL); }, 1); });
  EXPECT_THAT(killed.what(), HasSubstr("was killed by signal 9 (SIGKILL)"));
  EXPECT_EQ(killed.signal(), SIGKILL);
}

TEST(SpawnTest, AFailureEndsTheOtherRanks) {
  const Board board;
  Gate never;
  const auto rank = [&](int number) {
    if (number == 0) signal(SIGTERM, SIG_IGN);
    board[number] = 1;
    if (number < 2) never.Pass();
    while (board[0] + board[1] < 2) sched_yield();
    throw std::runtime_error("the third");
  };
  const SpawnError error = FailureOf([&] { spawn(rank, 3, {.grace = milliseconds(50)}); });
  EXPECT_EQ(error.rank(), 2);
  EXPECT_TRUE(HasNoChildren());
}

TEST(SpawnTest, ARankThatBlamesItsPeerIsNotTheCause) {
  const SpawnError error = FailureOf([] {
    spawn(
        [](int rank) {
          init_process_group();
          if (rank == 1) throw std::runtime_error("the cause");
          barrier();
        },
        3);
  });
  EXPECT_THAT(error.what(), HasSubstr("rank 1 "));
  EXPECT_THAT(error.what(), HasSubstr("the cause"));
}

TEST(SpawnTest, AFailureIsAwaitedThatExplainsAnEarlierOne) {
  const Board board;
  const auto rank = [&](int number) {
    board[number] = getpid();
    while (board[1] == 0) sched_yield();
    if (number == 1) throw DistError(ErrorKind::kPeerGone, "rank 0 went away");
    while (kill(board[1], 0) == 0) sched_yield();  // until the parent knows of rank 1's end
    throw std::runtime_error("the cause");
  };
  EXPECT_THAT(FailureOf([&] { spawn(rank, 2); }).what(), HasSubstr("the cause"));
}

TEST(SpawnTest, AnErrorThatBlamesPeersIsThrownIfNothingExplainsIt) {
  Gate never;
  const SpawnError error = FailureOf([&] {
    spawn(
        [&](int rank) {
          if (rank == 1) throw DistError(ErrorKind::kTimeout, "rank 0 did not arrive");
          never.Pass();
        },
        2);
  });
  EXPECT_THAT(error.what(), HasSubstr("rank 1 "));
  EXPECT_TRUE(HasNoChildren());
}

TEST(SpawnTest, WithoutJoinTheContextWaits) {
  const Board board;
  Gate gate;
  SpawnContext context = spawn(
      [&](int rank) {
        gate.Pass();
        board[rank] = getpid();
      },
      2, {.join = false});
  EXPECT_FALSE(context.join(milliseconds(0)));
  gate.Open();
  EXPECT_TRUE(context.join());
  EXPECT_THAT(context.pids(), ElementsAre(board[0].load(), board[1].load()));
  EXPECT_TRUE(context.join());
}

TEST(SpawnTest, JoinThrowsTheSameFailureAgain) {
  SpawnContext context = spawn([](int) { throw std::runtime_error("gone"); }, 1, {.join = false});
  const std::string first = FailureOf([&] { context.join(); }).what();
  EXPECT_THAT(first, HasSubstr("gone"));
  EXPECT_EQ(FailureOf([&] { context.join(milliseconds(0)); }).what(), first);
}

TEST(SpawnTest, AContextThatGoesEndsItsRanks) {
  Gate never;
  {
    const SpawnContext context = spawn([&](int) { never.Pass(); }, 2, {.join = false});
  }
  EXPECT_TRUE(HasNoChildren());
}

TEST(SpawnTest, RanksEndWhenTheirParentIsKilled) {
  engine::Process parent([](const engine::Process::Line& line) {
    const auto for_ever = [](int) {
      for (;;) pause();
    };
    const SpawnContext context = spawn(for_ever, 2, {.join = false});
    for (const int pid : context.pids()) line.Say(std::to_string(pid));
    line.AwaitCommand();
  });
  std::vector<FileDescriptor> ranks;
  for (int i = 0; i < 2; ++i) {
    const int pid = std::stoi(parent.Hear());
    ranks.emplace_back(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    ASSERT_TRUE(ranks.back().valid());
  }
  parent.Signal(SIGKILL);
  for (const FileDescriptor& rank : ranks) {
    pollfd ended{rank.get(), POLLIN, 0};
    EXPECT_EQ(poll(&ended, 1, 60000), 1) << "the rank outlives its parent";
    syscall(SYS_pidfd_send_signal, rank.get(), SIGKILL, nullptr, 0);
  }
}

TEST(SpawnTest, BufferedOutputAppearsOnce) {
  const ScratchDir scratch;
  const std::string path = scratch.path() / "out";
  FILE* file = fopen(path.c_str(), "w");
  fputs("parent;", file);
  spawn([&](int rank) { fprintf(file, "rank %d;", rank); }, 1);
  fclose(file);
  std::stringstream read;
  read << std::ifstream(path).rdbuf();
  EXPECT_EQ(read.str(), "parent;rank 0;");
}

TEST(SpawnTest, AProcessWithThreadsIsRefusedUnlessItInsists) {
  std::latch done(1);
  std::jthread other([&] { done.wait(); });
  const Board board;
  const DistError error = ErrorOf([&] { spawn([](int) {}, 1); });
  EXPECT_EQ(error.kind(), ErrorKind::kWrongState);
  EXPECT_THAT(error.what(), StartsWith("spawn: this process has 2 threads, and a child has only"));
  spawn([&](int rank) { board[rank] = 5; }, 1, {.allow_threads = true});
  EXPECT_EQ(board[0], 5);
  done.count_down();
}

TEST(SpawnTest, ARankOfAGroupIsRefused) {
  const auto in_group = [](int) {
    init_process_group();
    const DistError error = ErrorOf([] { spawn([](int) {}, 1, {.allow_threads = true}); });
    destroy_process_group();
    throw error;
  };
  EXPECT_THAT(FailureOf([&] { spawn(in_group, 1); }).what(),
              HasSubstr("call spawn before init_process_group"));
}

TEST(SpawnTest, AProcessThatIgnoresItsChildrenIsRefused) {
  signal(SIGCHLD, SIG_IGN);
  const DistError error = ErrorOf([] { spawn([](int) {}, 1); });
  signal(SIGCHLD, SIG_DFL);
  EXPECT_THAT(error.what(), HasSubstr("SIGCHLD is ignored"));
}

TEST(SpawnTest, RejectsWhatIsNoFunctionOrNoWorld) {
  EXPECT_STREQ(ErrorOf([] { spawn(nullptr, 1); }).what(), "spawn: fn is empty; give a function");
  const DistError error = ErrorOf([] { spawn([](int) {}, 0); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_STREQ(error.what(), "spawn: nprocs is 0; give 1 or more");
}

}  // namespace
}  // namespace dp::distributed
