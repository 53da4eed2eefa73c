#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dp::server {

// For tests: the real dp-coordinator as a child process on a port that the system chose. Killed and
// reaped by the destructor.
class CoordinatorProcess {
 public:
  // How a process ended, and what it wrote to standard error.
  struct Ended {
    int exit_code = -1;  // -1: a signal
    std::string error;
  };

  // Starts it and returns once it listens, or once it has ended.
  explicit CoordinatorProcess(std::vector<std::string> arguments);
  // On a data directory, port 0.
  explicit CoordinatorProcess(const std::filesystem::path& data_dir);
  ~CoordinatorProcess();
  CoordinatorProcess(const CoordinatorProcess&) = delete;
  CoordinatorProcess& operator=(const CoordinatorProcess&) = delete;

  // host:port; empty when it has ended instead.
  int pid() const { return pid_; }
  const std::string& address() const { return address_; }
  // Sends the signal and waits for the end.
  Ended Kill(int signal);
  // Waits for an end that comes by itself.
  Ended Wait();

 private:
  int pid_ = -1;
  int stdout_ = -1;
  int stderr_ = -1;
  std::string address_;
};

}  // namespace dp::server
