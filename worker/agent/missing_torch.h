#pragma once

#include <string>
#include <vector>

#include "dp/v1/workers.pb.h"

// The advice for a user whose program found no PyTorch: it names the Python that ran on this host.

namespace dp::worker {

// Where `program` lies, as execvp finds it by the PATH of `environment` (NAME=value each);
// `program` itself where it has a '/' or is nowhere. Looks at the file system.
std::string PathOf(const std::string& program, const std::vector<std::string>& environment);

// Whether a rank ended for want of the module torch, by its last lines. Pure.
bool LacksTorch(const std::vector<std::string>& last_lines);

// The line for the user. `program` is the path of the rank's program. Pure.
std::string WhyNoTorch(const std::string& program);

}  // namespace dp::worker
