#pragma once

#include <string>

#include "worker/agent/cgroup_paths.h"

namespace dp::worker {

// A cgroup of a test's own below the one that the test runs in. Removed at the end, when this
// process is back where it was.
class OwnCgroup {
 public:
  // As CgroupPaths names hierarchies.
  explicit OwnCgroup(const std::string& hierarchy);
  ~OwnCgroup();
  OwnCgroup(const OwnCgroup&) = delete;
  OwnCgroup& operator=(const OwnCgroup&) = delete;

  // Empty where none can be made here.
  const std::string& dir() const { return dir_; }

 private:
  std::string origin_;
  std::string dir_;
};

}  // namespace dp::worker
