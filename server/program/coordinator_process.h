#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dp::server {

// For tests: the real dp-coordinator as a child process, on a port that the system chose. The
// destructor kills and reaps the process.
class CoordinatorProcess {
 public:
  // How the process exited, and what it wrote to standard error.
  struct Ended {
    int exit_code = -1;  // -1: killed by a signal
    std::string error;
  };

  // Starts the process; returns once it listens, or once it has exited.
  explicit CoordinatorProcess(std::vector<std::string> arguments);
  // With this data directory, on port 0.
  explicit CoordinatorProcess(const std::filesystem::path& data_dir);
  ~CoordinatorProcess();
  CoordinatorProcess(const CoordinatorProcess&) = delete;
  CoordinatorProcess& operator=(const CoordinatorProcess&) = delete;

  int pid() const { return pid_; }
  // host:port; empty if the process has exited instead.
  const std::string& address() const { return address_; }
  // The next line on standard output, without its end. Blocks until there is one.
  std::string NextLine();
  // Sends the signal and waits for the exit.
  Ended Kill(int signal);
  // Waits for the process to exit by itself.
  Ended Wait();

 private:
  int pid_ = -1;
  int stdout_ = -1;
  int stderr_ = -1;
  std::string address_;
};

}  // namespace dp::server
