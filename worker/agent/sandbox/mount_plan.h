#pragma once

#include <string>
#include <vector>

// A rank's view of its host's files, and the order of the mounts that make it (docs/sandbox.md).
// Pure. Uses no library, because dp-guard links it. All paths are absolute and without links.

namespace dp::worker {

// The mounts that the options of a worker request for one rank.
struct RankMounts {
  // Holds a directory for each TmpPlace, which the rank sees in its place; empty: it sees the
  // host's. The rank does not see what else is in the directory above.
  std::string private_tmp;
  bool read_only_root = false;
  std::vector<std::string> writable;  // visible and writable whatever else is not
  std::vector<std::string> shown;     // visible, as programs of dp

  bool any() const { return !private_tmp.empty() || read_only_root; }
  bool operator==(const RankMounts&) const = default;
};

// A directory of the host for temporary files, and the name of its private twin.
struct TmpPlace {
  std::string path;
  std::string name;

  bool operator==(const TmpPlace&) const = default;
};

// Makes the tree below `source` visible at `target`, which may be the same.
struct Bind {
  std::string source;
  std::string target;
  bool writable = false;

  bool operator==(const Bind&) const = default;
};

struct MountPlan {
  bool read_only = false;  // everything but the writable binds
  // In order: what is mounted above comes first. The host's trees count as they were before the
  // first bind.
  std::vector<Bind> binds;
};

MountPlan PlanMounts(const RankMounts& mounts, const std::vector<TmpPlace>& tmps);

// A path that a private directory must have because something of the host is mounted there.
struct MountPoint {
  std::string path;
  std::string source;  // shows whether it is a directory or a file

  bool operator==(const MountPoint&) const = default;
};

std::vector<MountPoint> MountPointsOf(const MountPlan& plan);

// Whether the path stays writable under the plan.
bool StaysWritable(const MountPlan& plan, const std::string& path);

// A mount as the kernel lists it.
struct HostMount {
  std::string path;
  unsigned long flags = 0;  // MS_NOSUID and the like, without MS_RDONLY
};

// Reads the text of /proc/self/mountinfo. Lines that it does not understand are left out.
std::vector<HostMount> ParseMountInfo(const std::string& text);

}  // namespace dp::worker
