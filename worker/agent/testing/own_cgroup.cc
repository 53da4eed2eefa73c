#include "worker/agent/testing/own_cgroup.h"

#include <stdlib.h>

#include "absl/time/time.h"
#include "worker/agent/processes/cgroup.h"
#include "worker/agent/processes/worker_cgroup.h"

namespace dp::worker {

OwnCgroup::OwnCgroup(const std::string& hierarchy) : origin_(OwnCgroupPaths()[hierarchy]) {
  if (origin_.empty()) return;
  std::string dir = origin_ + "/dp-test-XXXXXX";
  if (mkdtemp(dir.data()) != nullptr) dir_ = dir;
}

OwnCgroup::~OwnCgroup() {
  if (dir_.empty()) return;
  JoinCgroup(origin_);
  EndCgroup(dir_, absl::Seconds(20));
}

}  // namespace dp::worker
