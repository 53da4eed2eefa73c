#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "gtest/gtest.h"
#include "store/store.h"
#include "worker/engine/collectives/group.h"

// The suite for backends whose ranks are processes, which the tests stop and kill
// (group_processes.cc). Each backend runs it with small and with large sums:
//
//   INSTANTIATE_TEST_SUITE_P(Gloo, GroupProcesses,
//                            ::testing::Combine(::testing::Values(ProcessBackend{ConnectHere}),
//                                               ::testing::Values(100, 3000000)));

namespace dp::engine {

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

// Joins rank `rank` of `size`.
using ConnectRank = std::function<absl::StatusOr<std::unique_ptr<Group>>(
    Store& store, int rank, int size, absl::Duration timeout)>;

struct ProcessBackend {
  ConnectRank connect;
};

// Starts `size` ranks. Each connects, says "connected" and runs `body` on command. It then keeps
// its group open, as a trainer does, until it is killed or gets the command to close the group.
World StartRanks(const ConnectRank& connect, int size, absl::Duration timeout, const Body& body);

// Without payloads.
std::string TextOfStatus(const absl::Status& status);

class GroupProcesses : public ::testing::TestWithParam<std::tuple<ProcessBackend, size_t>> {
 protected:
  World Start(int size, absl::Duration timeout, const Body& body) const {
    return StartRanks(std::get<0>(GetParam()).connect, size, timeout, body);
  }
  // In a sum.
  size_t floats() const { return std::get<1>(GetParam()); }
};

}  // namespace dp::engine
