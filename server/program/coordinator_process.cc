#include "server/program/coordinator_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/check.h"

extern char** environ;

namespace dp::server {
namespace {

constexpr absl::string_view kListening = "dp-coordinator listening on ";

struct Pipe {
  Pipe() { DP_CHECK(pipe2(ends, O_CLOEXEC) == 0); }
  int ends[2];
};

std::string ReadLine(int fd) {
  std::string line;
  char c = 0;
  while (read(fd, &c, 1) == 1 && c != '\n') line.push_back(c);
  return line;
}

std::string ReadAll(int fd) {
  std::string all;
  char buffer[4096];
  for (ssize_t got; (got = read(fd, buffer, sizeof(buffer))) > 0;) all.append(buffer, got);
  return all;
}

}  // namespace

CoordinatorProcess::CoordinatorProcess(const std::filesystem::path& data_dir)
    : CoordinatorProcess(
          std::vector<std::string>{"--listen", "127.0.0.1:0", "--data-dir", data_dir.string()}) {}

CoordinatorProcess::CoordinatorProcess(std::vector<std::string> arguments) {
  const Pipe out, err;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.ends[1], STDERR_FILENO);
  arguments.insert(arguments.begin(), DP_COORDINATOR_BINARY);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  DP_CHECK(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  close(out.ends[1]);
  close(err.ends[1]);
  stdout_ = out.ends[0];
  stderr_ = err.ends[0];
  const std::string line = ReadLine(stdout_);
  if (absl::StartsWith(line, kListening)) address_ = line.substr(kListening.size());
}

CoordinatorProcess::~CoordinatorProcess() {
  if (pid_ > 0) Kill(SIGKILL);
  close(stdout_);
  close(stderr_);
}

std::string CoordinatorProcess::NextLine() { return ReadLine(stdout_); }

CoordinatorProcess::Ended CoordinatorProcess::Kill(int signal) {
  DP_CHECK(kill(pid_, signal) == 0);
  return Wait();
}

CoordinatorProcess::Ended CoordinatorProcess::Wait() {
  Ended ended{.error = ReadAll(stderr_)};
  int status = 0;
  DP_CHECK(waitpid(pid_, &status, 0) == pid_);
  pid_ = -1;
  if (WIFEXITED(status)) ended.exit_code = WEXITSTATUS(status);
  return ended;
}

}  // namespace dp::server
