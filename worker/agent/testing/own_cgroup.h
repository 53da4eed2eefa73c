#pragma once

#include <string>

#include "worker/agent/processes/cgroup_paths.h"

namespace dp::worker {

// A test's own cgroup, below the one that the test runs in. The destructor moves this process back,
// then removes the cgroup.
class OwnCgroup {
 public:
  // Named as in CgroupPaths.
  explicit OwnCgroup(const std::string& hierarchy);
  ~OwnCgroup();
  OwnCgroup(const OwnCgroup&) = delete;
  OwnCgroup& operator=(const OwnCgroup&) = delete;

  // Empty if none can be made here.
  const std::string& dir() const { return dir_; }

 private:
  std::string origin_;
  std::string dir_;
};

}  // namespace dp::worker
