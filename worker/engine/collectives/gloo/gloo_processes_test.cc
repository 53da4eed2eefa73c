#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/gloo/gloo_group.h"
#include "worker/engine/collectives/testing/shared_memory_store.h"

// Ranks as processes, which the tests stop and kill.

namespace dp::engine {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// A forked process with a line in each direction. The destructor kills it.
class Process {
 public:
  // The child's side of the lines.
  struct Line {
    int in, out;
    void Say(const std::string& word) const {
      const std::string line = word + "\n";
      DP_CHECK(write(out, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
    }
    // Blocks until the parent sends a command or is gone.
    void AwaitCommand() const {
      char c;
      (void)!read(in, &c, 1);
    }
  };

  explicit Process(const std::function<void(const Line&)>& body) {
    int to[2], from[2];
    DP_CHECK(pipe(to) == 0 && pipe(from) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(to[1]);
      close(from[0]);
      body({to[0], from[1]});
      _exit(0);
    }
    close(to[0]);
    close(from[1]);
    in_ = from[0];
    out_ = to[1];
  }
  ~Process() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(in_);
    close(out_);
  }

  void Signal(int signal) const { kill(pid_, signal); }
  void Command() const { DP_CHECK(write(out_, "!", 1) == 1); }
  // The next line. Ends in "(silence)" if nothing came for a minute or the process is gone.
  std::string Hear() const {
    std::string line;
    for (;;) {
      pollfd ready{in_, POLLIN, 0};
      char c;
      if (poll(&ready, 1, 60000) != 1 || read(in_, &c, 1) != 1) return line + "(silence)";
      if (c == '\n') return line;
      line += c;
    }
  }

 private:
  pid_t pid_;
  int in_, out_;
};

using World = std::vector<std::unique_ptr<Process>>;
using Body = std::function<void(Group&, const Process::Line&)>;

std::string Text(const absl::Status& status) {
  return status.ToString(absl::StatusToStringMode::kWithNoExtraData);
}

// Starts `size` ranks. Each connects, says "connected" and runs `body` on command. It then keeps
// its group open, as a trainer does, until it is killed or gets the command to close the group.
World Start(int size, absl::Duration timeout, const Body& body) {
  static SharedMemoryStore* store;
  delete store;
  store = new SharedMemoryStore;
  World world;
  for (int r = 0; r < size; ++r)
    world.push_back(std::make_unique<Process>([&](const Process::Line& line) {
      auto group =
          ConnectGloo(*store, r, size, {.group = {.timeout = timeout}, .address = "127.0.0.1"});
      line.Say(group.ok() ? "connected" : Text(group.status()));
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

// Reduces `floats` floats again and again until an error, which it says.
void ReduceUntilError(Group& group, const Process::Line& line, size_t floats) {
  std::vector<float> data(floats);
  for (int i = 0;; ++i) {
    const absl::Status status = group.AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait();
    if (!status.ok()) return line.Say(Text(status));
    if (i == 0) line.Say("reducing");
  }
}

class GlooProcessesTest : public ::testing::TestWithParam<size_t> {};

TEST_P(GlooProcessesTest, AKilledRankIsNamedByAllOthersAndNobodyElseIs) {
  World world = Start(4, absl::Minutes(10), [](Group& group, const Process::Line& line) {
    ReduceUntilError(group, line, GetParam());
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

TEST_P(GlooProcessesTest, AbortAndCloseReturnWhileAPeerIsStopped) {
  World world = Start(2, absl::Minutes(10), [](Group& group, const Process::Line& line) {
    std::jthread aborter([&] {
      line.AwaitCommand();
      group.Abort(absl::UnavailableError("generation 2 is over"));
    });
    ReduceUntilError(group, line, GetParam());
  });
  for (auto& process : world) process->Command();
  for (auto& process : world) ASSERT_EQ(process->Hear(), "reducing");
  world[1]->Signal(SIGSTOP);
  world[0]->Command();
  EXPECT_THAT(world[0]->Hear(), HasSubstr("was aborted: generation 2 is over"));
  world[0]->Command();
  EXPECT_EQ(world[0]->Hear(), "closed");
}

TEST_P(GlooProcessesTest, ARankStoppedInTheMiddleIsAmongThoseTheDeadlineNames) {
  World world = Start(3, absl::Seconds(5), [](Group& group, const Process::Line& line) {
    ReduceUntilError(group, line, GetParam());
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

INSTANTIATE_TEST_SUITE_P(SmallAndLarge, GlooProcessesTest,
                         ::testing::Values(size_t{100}, size_t{3000000}));

TEST(GlooProcessTest, ADeathIsSeenAtOnceByAnOperationThatWaitsForSomebodyElse) {
  World world = Start(3, absl::Minutes(10), [](Group& group, const Process::Line& line) {
    ReduceUntilError(group, line, 100);
  });
  world[0]->Command();  // rank 0 waits for rank 1, which does not come
  world[2]->Signal(SIGKILL);
  EXPECT_EQ(world[0]->Hear(), "UNAVAILABLE: all_reduce 1: rank 2 went away");
}

TEST(GlooProcessTest, ARankThatNeverComesIsTheOnlyOneTheDeadlineNames) {
  World world = Start(4, absl::Seconds(5), [](Group& group, const Process::Line& line) {
    std::vector<float> data(100000);
    line.Say(Text(group.AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait()));
  });
  world[2]->Signal(SIGSTOP);
  for (auto& process : world) process->Command();
  for (int r : {0, 1, 3})
    EXPECT_EQ(world[r]->Hear(), "DEADLINE_EXCEEDED: all_reduce 1: rank 2 did not arrive within 5s");
}

}  // namespace
}  // namespace dp::engine
