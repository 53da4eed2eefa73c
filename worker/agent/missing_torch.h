#pragma once

#include <string>
#include <vector>

// The advice for a user whose program found no PyTorch: it names the Python that ran on this host.

namespace dp::worker {

// A rank's program as its job names it, and its environment (NAME=value each).
struct TorchlessProgram {
  std::string name;
  std::vector<std::string> environment;
};

// The file that execvp runs for the program, found by the PATH of its environment; the name itself
// where it has a '/' or no such file is there. Looks at the file system, which may block for ever:
// not for the agent's loop.
std::string PathOf(const TorchlessProgram& program);

// Whether a rank's last lines say that Python found no module torch. Pure.
bool LacksTorch(const std::vector<std::string>& last_lines);

// The line for the user. `program` is the path of the rank's program. Pure.
std::string WhyNoTorch(const std::string& program);

}  // namespace dp::worker
