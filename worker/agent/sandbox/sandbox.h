#pragma once

#include <string>
#include <vector>

#include "worker/agent/sandbox/mount_plan.h"

namespace dp::worker {

// How a worker confines the ranks that it runs (docs/sandbox.md).
struct Sandbox {
  bool private_tmp = false;
  bool read_only_root = false;
  std::vector<std::string> writable = {};          // absolute, without links
  std::vector<std::string> shown = {};             // as in RankMounts
  std::vector<std::string> allowed_programs = {};  // patterns (program_rule.h); empty: every one

  bool needs_mounts() const { return private_tmp || read_only_root; }
};

// The mounts of a rank whose own files lie in `spool_dir`. RankMounts::private_tmp stays empty.
// Pure.
inline RankMounts MountsOf(const Sandbox& sandbox, const std::string& spool_dir) {
  RankMounts mounts{.private_tmp = {},
                    .read_only_root = sandbox.read_only_root,
                    .writable = sandbox.writable,
                    .shown = sandbox.shown};
  mounts.writable.push_back(spool_dir);
  return mounts;
}

}  // namespace dp::worker
