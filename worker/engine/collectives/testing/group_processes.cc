#include "worker/engine/collectives/testing/group_processes.h"

#include <signal.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "gmock/gmock.h"
#include "worker/engine/collectives/testing/shared_memory_store.h"

namespace dp::engine {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// Reduces `floats` floats again and again until an error, which it says.
void ReduceUntilError(Group& group, const Process::Line& line, size_t floats) {
  std::vector<float> data(floats);
  for (int i = 0;; ++i) {
    const absl::Status status = group.AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait();
    if (!status.ok()) return line.Say(TextOfStatus(status));
    if (i == 0) line.Say("reducing");
  }
}

// Runs operations of every kind, in an order that `seed` decides, until an error, which it says.
void OperateUntilError(Group& group, const Process::Line& line, size_t floats, uint64_t seed) {
  const auto size = static_cast<size_t>(group.size());
  std::vector<float> data(floats);
  std::vector<uint8_t> bytes(floats), of_all(size * floats), to_all(size * floats);
  std::vector<absl::Span<const uint8_t>> sent;
  std::vector<absl::Span<uint8_t>> received;
  for (size_t r = 0; r < size; ++r) {
    sent.push_back(absl::MakeConstSpan(to_all).subspan(r * floats, floats));
    received.push_back(absl::MakeSpan(of_all).subspan(r * floats, floats));
  }
  const auto begin = [&](uint64_t random) -> std::unique_ptr<Work> {
    const int root = static_cast<int>(random / 7 % size);
    switch (random % 7) {
      case 0:
        return group.AllReduce(absl::MakeSpan(data), ReduceOp::kSum);
      case 1:
        return group.Broadcast(absl::MakeSpan(bytes), root);
      case 2:
        return group.AllGather(absl::MakeConstSpan(bytes), absl::MakeSpan(of_all));
      case 3:
        return group.Reduce(absl::MakeSpan(data), ReduceOp::kSum, root);
      case 4:
        return group.Exchange(sent, received);
      case 5:
        return group.ReduceScatter(absl::MakeConstSpan(data).first(floats / size * size),
                                   absl::MakeSpan(data).first(floats / size), ReduceOp::kSum);
      default:
        return group.Barrier();
    }
  };
  for (;;) {
    const absl::Status status = begin(NextRandom(seed) >> 8)->Wait();
    if (!status.ok()) return line.Say(TextOfStatus(status));
  }
}

// Kills this process after so many turns of another thread: any point of an operation.
void KillSelfAfter(uint64_t turns) {
  for (uint64_t turn = 0; turn < turns; ++turn) std::this_thread::yield();
  kill(getpid(), SIGKILL);
}

}  // namespace

std::string TextOfStatus(const absl::Status& status) {
  return status.ToString(absl::StatusToStringMode::kWithNoExtraData);
}

World StartRanks(const ConnectRank& connect, int size, absl::Duration timeout, const Body& body) {
  static SharedMemoryStore* store;
  delete store;
  store = new SharedMemoryStore;
  World world;
  for (int r = 0; r < size; ++r)
    world.push_back(std::make_unique<Process>([&](const Process::Line& line) {
      auto group = connect(*store, r, size, timeout);
      line.Say(group.ok() ? "connected" : TextOfStatus(group.status()));
      if (!group.ok()) return;
      line.AwaitCommand();
      body(**group, line);
      line.AwaitCommand();
      group->reset();
      line.Say("closed");
      line.AwaitCommand();
    }));
  for (auto& process : world) EXPECT_EQ(process->Hear(), "connected");
  return world;
}

TEST_P(GroupProcesses, AKilledRankIsNamedByAllOthersAndNobodyElseIs) {
  World world = Start(4, absl::Minutes(10), [this](Group& group, const Process::Line& line) {
    ReduceUntilError(group, line, floats());
  });
  for (auto& process : world) process->Command();
  for (auto& process : world) ASSERT_EQ(process->Hear(), "reducing");
  world[2]->Signal(SIGKILL);
  for (int r : {0, 1, 3}) {
    const std::string error = world[r]->Hear();
    EXPECT_THAT(error, HasSubstr("UNAVAILABLE: all_reduce"));
    EXPECT_THAT(error, HasSubstr(": rank 2 went away"));
  }
}

TEST_P(GroupProcesses, ARankThatIsKilledAtAnyPointOfAnyOperationIsNamed) {
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    uint64_t random = seed;
    const int victim = static_cast<int>(NextRandom(random) % 3);
    const uint64_t turns = NextRandom(random) % 3000;
    World world = Start(3, absl::Minutes(10), [&](Group& group, const Process::Line& line) {
      std::jthread killer;
      if (group.rank() == victim) killer = std::jthread(KillSelfAfter, turns);
      OperateUntilError(group, line, floats(), seed);
    });
    for (auto& process : world) process->Command();
    for (int r = 0; r < 3; ++r) {
      if (r == victim) continue;
      EXPECT_THAT(
          world[r]->Hear(),
          ContainsRegex(absl::StrCat("^UNAVAILABLE: [a-z_]+ [0-9]+: rank ", victim, " went away$")))
          << "seed " << seed;
    }
  }
}

TEST_P(GroupProcesses, AbortAndCloseReturnWhileAPeerIsStopped) {
  World world = Start(2, absl::Minutes(10), [this](Group& group, const Process::Line& line) {
    std::jthread aborter([&] {
      line.AwaitCommand();
      group.Abort(absl::UnavailableError("generation 2 is over"));
    });
    ReduceUntilError(group, line, floats());
  });
  for (auto& process : world) process->Command();
  for (auto& process : world) ASSERT_EQ(process->Hear(), "reducing");
  world[1]->Signal(SIGSTOP);
  world[0]->Command();
  EXPECT_THAT(world[0]->Hear(), HasSubstr("was aborted: generation 2 is over"));
  world[0]->Command();
  EXPECT_EQ(world[0]->Hear(), "closed");
}

TEST_P(GroupProcesses, ARankStoppedInTheMiddleIsAmongThoseTheDeadlineNames) {
  World world = Start(3, absl::Seconds(5), [this](Group& group, const Process::Line& line) {
    ReduceUntilError(group, line, floats());
  });
  for (auto& process : world) process->Command();
  for (auto& process : world) ASSERT_EQ(process->Hear(), "reducing");
  world[1]->Signal(SIGSTOP);
  for (int r : {0, 2}) {
    const std::string error = world[r]->Hear();
    EXPECT_THAT(error, HasSubstr("DEADLINE_EXCEEDED: all_reduce"));
    EXPECT_THAT(error, ContainsRegex(": ranks? ([0-9], )*1(, [0-9])* did not arrive"));
  }
}

TEST_P(GroupProcesses, ARankThatLeavesMidwayIsNamedByThoseWhoStillNeedIt) {
  World world = Start(3, absl::Minutes(10), [this](Group& group, const Process::Line& line) {
    if (group.rank() != 1) return ReduceUntilError(group, line, floats());
    std::vector<float> data(floats());
    line.Say(TextOfStatus(group.AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait()));
  });
  for (auto& process : world) process->Command();
  EXPECT_EQ(world[1]->Hear(), "OK");
  for (int r : {0, 2}) ASSERT_EQ(world[r]->Hear(), "reducing");
  world[1]->Command();  // closes its group
  for (int r : {0, 2}) EXPECT_EQ(world[r]->Hear(), "UNAVAILABLE: all_reduce 2: rank 1 went away");
}

TEST_P(GroupProcesses, ARankThatClosesBecauseOfADeathIsNotTakenForDead) {
  World world = Start(3, absl::Minutes(10), [this](Group& group, const Process::Line& line) {
    ReduceUntilError(group, line, floats());
  });
  world[2]->Signal(SIGKILL);
  const std::string error = "UNAVAILABLE: all_reduce 1: rank 2 went away";
  world[0]->Command();
  EXPECT_EQ(world[0]->Hear(), error);
  world[0]->Command();
  EXPECT_EQ(world[0]->Hear(), "closed");
  world[1]->Command();
  EXPECT_EQ(world[1]->Hear(), error);
}

TEST_P(GroupProcesses, ADeathIsSeenAtOnceByAnOperationThatWaitsForSomebodyElse) {
  World world = Start(3, absl::Minutes(10), [](Group& group, const Process::Line& line) {
    ReduceUntilError(group, line, 100);
  });
  world[0]->Command();  // rank 0 waits for rank 1, which does not come
  world[2]->Signal(SIGKILL);
  EXPECT_EQ(world[0]->Hear(), "UNAVAILABLE: all_reduce 1: rank 2 went away");
}

TEST_P(GroupProcesses, AKilledPeerOfAMessageIsNamed) {
  World world = Start(3, absl::Minutes(10), [this](Group& group, const Process::Line& line) {
    std::vector<float> data(floats());
    const auto receive = group.Receive(absl::MakeSpan(data), 2, 4);
    const auto send = group.Send(absl::MakeConstSpan(data), 2, 5);
    const absl::Status status = receive->Wait();
    line.Say(send->Wait() == status ? TextOfStatus(status) : "the first failure did not end both");
  });
  for (int r : {0, 1}) world[r]->Command();
  world[2]->Signal(SIGKILL);
  for (int r : {0, 1})
    EXPECT_EQ(world[r]->Hear(), "UNAVAILABLE: recv from rank 2, tag 4: rank 2 went away");
}

// Whoever knows first is gone at once, and takes its connections along.
TEST_P(GroupProcesses, RanksThatDifferAndEndAtOnceStateItAll) {
  World world = Start(3, absl::Minutes(10), [](Group& group, const Process::Line& line) {
    std::vector<float> data(100);
    const auto work = group.rank() == 1
                          ? group.AllReduce(absl::MakeSpan(data).first(99), ReduceOp::kSum)
                          : group.AllReduce(absl::MakeSpan(data), ReduceOp::kSum);
    line.Say(TextOfStatus(work->Wait()));
    _exit(0);
  });
  for (auto& process : world) process->Command();
  for (auto& process : world)
    EXPECT_EQ(
        process->Hear(),
        "INVALID_ARGUMENT: all_reduce 1: rank 0 calls all_reduce of 100 float32, op sum, rank "
        "1 calls all_reduce of 99 float32, op sum");
}

TEST_P(GroupProcesses, ARankThatNeverComesIsTheOnlyOneTheDeadlineNames) {
  World world = Start(4, absl::Seconds(5), [](Group& group, const Process::Line& line) {
    std::vector<float> data(100000);
    line.Say(TextOfStatus(group.AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait()));
  });
  world[2]->Signal(SIGSTOP);
  for (auto& process : world) process->Command();
  for (int r : {0, 1, 3})
    EXPECT_EQ(world[r]->Hear(), "DEADLINE_EXCEEDED: all_reduce 1: rank 2 did not arrive within 5s");
}

}  // namespace dp::engine
