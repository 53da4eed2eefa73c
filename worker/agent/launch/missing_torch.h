#pragma once

#include <string>
#include <vector>

// The advice for a user whose program found no PyTorch. It names the Python that ran on this host.

namespace dp::worker {

// A rank's program as named by its job, and its environment (NAME=value each).
struct TorchlessProgram {
  std::string name;
  std::vector<std::string> environment;
};

// The file that execvp runs for the program, searched for in the PATH of its environment. Returns
// the name itself if it has a '/', or if there is no such file. Reads the file system, which may
// block for ever, so the agent's loop must not call this.
std::string PathOf(const TorchlessProgram& program);

// Whether a rank's last lines say that Python found no module torch. Pure.
bool LacksTorch(const std::vector<std::string>& last_lines);

// The line for the user. `program` is the path of the rank's program. Pure.
std::string WhyNoTorch(const std::string& program);

}  // namespace dp::worker
