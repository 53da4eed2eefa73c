#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/file_descriptor.h"
#include "dp/ddp.h"
#include "dp/distributed.h"
#include "dp/zero.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/listed_module.h"
#include "worker/library/testing/rank_processes.h"

// Ranks that fork after they have joined: the child is no rank, and its end is not the rank's.

namespace {

// Whether this process is a fork that a test has made.
bool is_fork = false;

}  // namespace

// Asked by the leak sanitizer at the end of a process. A fork lacks the threads of the process
// before it, and what only their stacks held would count as lost.
extern "C" int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() { return is_fork ? 1 : 0; }

namespace dp::distributed {
namespace {

using engine::World;
using library::At;
using library::Line;
using library::ListedModule;
using library::RankProcessesTest;
using library::Say;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

// The text that a fork of this process gives, and how the fork ended. It ends as a program does,
// with the destructors of what is static.
std::string SaidByFork(const std::function<std::string()>& body) {
  int ends[2];
  DP_CHECK(pipe(ends) == 0);
  const pid_t pid = fork();
  DP_CHECK(pid >= 0);
  if (pid == 0) {
    is_fork = true;
    std::string text;
    try {
      text = body();
    } catch (const DistError& error) {
      text = Say(error);
    }
    DP_CHECK(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    std::exit(0);
  }
  close(ends[1]);
  const FileDescriptor from(ends[0]);
  std::string said;
  char part[256];
  for (ssize_t got; (got = read(from.get(), part, sizeof part)) > 0;) said.append(part, got);
  int status = 0;
  DP_CHECK(waitpid(pid, &status, 0) == pid);
  return said + (status == 0 ? ", ended" : ", ended with " + std::to_string(status));
}

std::string Sum(float of_this_rank) {
  std::vector<float> sum = {of_this_rank};
  all_reduce(sum);
  return std::to_string(static_cast<int>(sum[0]));
}

// The text of a fork that makes this call and gets no error.
std::string CallInFork(const std::function<void()>& call) {
  return SaidByFork([&] {
    call();
    return "no error";
  });
}

// Matches the text of a fork whose call says that it is no rank.
auto IsNoRank() {
  return AllOf(HasSubstr("was joined by a process of which this one is a fork"),
               EndsWith(", ended"));
}

class ForkTest : public RankProcessesTest, public ::testing::WithParamInterface<const char*> {
 protected:
  // Two ranks join, run `body`, leave, and say its result.
  World StartTwo(const std::function<std::string(int rank, const Line&)>& body) {
    return Start(2, [this, body](int rank, const Line& line) {
      InitOptions options = At(Url(), rank, 2);
      options.backend = GetParam();
      init_process_group(options);
      const std::string result = body(rank, line);
      destroy_process_group();
      return result;
    });
  }
  // Rank 0 forks, then both ranks sum 1. Returns what the fork and rank 0 said.
  std::vector<std::string> Run(const std::function<std::string()>& in_fork) {
    World world = StartTwo([&](int rank, const Line& line) {
      if (rank == 0) line.Say(SaidByFork(in_fork));
      return Sum(1);
    });
    const std::string of_fork = world[0]->Hear();
    EXPECT_EQ(world[1]->Hear(), "2");
    return {of_fork, world[0]->Hear()};
  }
};

TEST_P(ForkTest, AForkIsNoRankAndItsCallsSaySo) {
  const std::vector<std::string> said = Run([] { return Sum(100); });
  EXPECT_THAT(said[0], IsNoRank());
  EXPECT_EQ(said[1], "2");
}

TEST_P(ForkTest, WhatWasBegunBeforeIsNoWorkOfTheFork) {
  World world = StartTwo([](int rank, const Line& line) {
    std::vector<float> sum = {1};
    Work work = all_reduce_async(sum);
    const auto call = [&](const std::function<void(Work&)>& verb) {
      line.Say(CallInFork([&] {
        Work of_fork = std::move(work);
        verb(of_fork);
      }));
    };
    if (rank == 0) {
      call([](Work& of_fork) { of_fork.wait(); });
      call([](Work& of_fork) { of_fork.is_completed(); });
    }
    work.wait();
    return std::to_string(static_cast<int>(sum[0]));
  });
  EXPECT_THAT(world[0]->Hear(), IsNoRank());
  EXPECT_THAT(world[0]->Hear(), IsNoRank());
  for (const auto& rank : world) EXPECT_EQ(rank->Hear(), "2");
}

TEST_P(ForkTest, AForkDoesNotSetTheRanksGradients) {
  World world = StartTwo([](int rank, const Line& line) {
    ListedModule module({{"weight", {1}}});
    DistributedDataParallel ddp(module);
    module.Add(0, 3);
    if (rank == 0) {
      line.Say(CallInFork([&] { ddp.zero_grad(); }));
      line.Say(CallInFork([&] { ddp.clip_grad_norm(1); }));
    }
    return std::to_string(static_cast<int>(module.gradients[0][0]));
  });
  EXPECT_THAT(world[0]->Hear(), IsNoRank());
  EXPECT_THAT(world[0]->Hear(), IsNoRank());
  for (const auto& rank : world) EXPECT_EQ(rank->Hear(), "3");
}

TEST_P(ForkTest, AForkDoesNotUpdateByTheRanksShares) {
  World world = StartTwo([](int rank, const Line& line) {
    ListedModule module({{"weight", {1, 2}}});
    DistributedDataParallel ddp(module);
    bool updates = false;
    ZeroRedundancyOptimizer optimizer(ddp, 0, [&](const OptimizerPiece&) { updates = true; });
    if (rank == 0) {
      line.Say(SaidByFork([&]() -> std::string {
        try {
          optimizer.step();
        } catch (const DistError& error) {
          return (updates ? "updates, " : "") + Say(error);
        }
        return "no error";
      }));
    }
    return std::string("left");
  });
  EXPECT_THAT(world[0]->Hear(), AllOf(IsNoRank(), ::testing::Not(HasSubstr("updates"))));
  for (const auto& rank : world) EXPECT_EQ(rank->Hear(), "left");
}

TEST_P(ForkTest, TheEndOfAForkDoesNotEndTheRank) {
  EXPECT_THAT(Run([] { return "fork"; }), ::testing::ElementsAre("fork, ended", "2"));
  EXPECT_THAT(Run([] {
                default_group().abort("in a fork");
                destroy_process_group();
                return "left";
              }),
              ::testing::ElementsAre("left, ended", "2"));
}

TEST_P(ForkTest, AForkMayJoinAGroupOfItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer ends a fork of a process with threads that starts one";
#endif
  const std::vector<std::string> said = Run([this] {
    EXPECT_FALSE(is_initialized());
    InitOptions alone = At(Url() + ".fork", 0, 1);
    alone.backend = GetParam();
    init_process_group(alone);
    const std::string sum = Sum(5);
    destroy_process_group();
    return sum;
  });
  EXPECT_THAT(said, ::testing::ElementsAre("5, ended", "2"));
}

INSTANTIATE_TEST_SUITE_P(Backends, ForkTest, ::testing::Values("shm", "gloo", "hierarchical"));

}  // namespace
}  // namespace dp::distributed
