#include <signal.h>
#include <unistd.h>

#include <string>

#include "worker/engine/collectives/shm/shm_group.h"
#include "worker/engine/collectives/testing/group_processes.h"

namespace dp::engine {
namespace {

absl::StatusOr<std::unique_ptr<Group>> InMemory(Store& store, int rank, int size,
                                                absl::Duration timeout) {
  return ConnectShm(store, rank, size, {.group = {.timeout = timeout}});
}

INSTANTIATE_TEST_SUITE_P(Shm, GroupProcesses,
                         ::testing::Combine(::testing::Values(ProcessBackend{InMemory}),
                                            ::testing::Values(size_t{100}, size_t{3000000})));

// A child would hold the rank's life line if it kept the rank's open files.
TEST(ShmProcessTest, AProgramThatAKilledRankStartedDoesNotKeepItAlive) {
  World world =
      StartRanks(InMemory, 2, absl::Minutes(10), [](Group& group, const Process::Line& line) {
        if (group.rank() == 1) {
          const pid_t child = fork();
          if (child == 0) execlp("sleep", "sleep", "60", nullptr);
          line.Say(std::to_string(child));
          return line.AwaitCommand();
        }
        std::vector<float> data(10);
        line.Say(TextOfStatus(group.AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait()));
      });
  for (auto& process : world) process->Command();
  const int child = std::stoi(world[1]->Hear());
  world[1]->Signal(SIGKILL);
  EXPECT_EQ(world[0]->Hear(), "UNAVAILABLE: all_reduce 1: rank 1 went away");
  kill(child, SIGKILL);
}

}  // namespace
}  // namespace dp::engine
