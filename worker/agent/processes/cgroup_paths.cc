#include "worker/agent/processes/cgroup_paths.h"

#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace dp::worker {
namespace {

// One mount of a hierarchy.
struct Mount {
  std::string root;  // the cgroup that is visible at `dir`
  std::string dir;
};

// mountinfo writes separators within a field as octal numbers.
std::string Unescaped(absl::string_view field) {
  return absl::StrReplaceAll(field,
                             {{"\\040", " "}, {"\\011", "\t"}, {"\\012", "\n"}, {"\\134", "\\"}});
}

// "31 23 0:28 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory"
std::multimap<std::string, Mount> MountsIn(const std::string& mountinfo) {
  std::multimap<std::string, Mount> mounts;
  for (const absl::string_view line : absl::StrSplit(mountinfo, '\n')) {
    const std::vector<absl::string_view> halves = absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    if (halves.size() != 2) continue;
    const std::vector<absl::string_view> place = absl::StrSplit(halves[0], ' ');
    const std::vector<absl::string_view> what = absl::StrSplit(halves[1], ' ');
    if (place.size() < 5 || what.size() < 3) continue;
    const Mount mount{Unescaped(place[3]), Unescaped(place[4])};
    if (what[0] == "cgroup2") mounts.emplace(kCgroup2, mount);
    if (what[0] != "cgroup") continue;
    for (const absl::string_view option : absl::StrSplit(what[2], ',')) {
      mounts.emplace(std::string(option), mount);
    }
  }
  return mounts;
}

// Empty if the cgroup is not below the mount's root. A path that begins with "/.." is outside the
// cgroup namespace.
std::string DirOf(absl::string_view path, const Mount& mount) {
  if (absl::StartsWith(path, "/..") || absl::StartsWith(mount.root, "/..")) return "";
  const absl::string_view root = mount.root == "/" ? "" : absl::string_view(mount.root);
  if (!absl::ConsumePrefix(&path, root) || !(path.empty() || path[0] == '/')) return "";
  return absl::StrCat(mount.dir, absl::StripSuffix(path, "/"));
}

std::string Contents(const char* path) {
  std::ifstream file(path);
  return (std::stringstream() << file.rdbuf()).str();
}

}  // namespace

CgroupPaths ParseCgroupPaths(const std::string& cgroup, const std::string& mountinfo) {
  const auto mounts = MountsIn(mountinfo);
  CgroupPaths paths;
  for (const absl::string_view line : absl::StrSplit(cgroup, '\n')) {
    // "4:memory:/user", "9:cpu,cpuacct:/", "0::/user"
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const absl::string_view names = parts[0] == "0" ? kCgroup2 : parts[1];
    for (const absl::string_view name : absl::StrSplit(names, ',')) {
      const auto [first, last] = mounts.equal_range(std::string(name));
      for (auto mount = first; mount != last; ++mount) {
        const std::string dir = DirOf(parts[2], mount->second);
        if (!dir.empty()) paths.emplace(std::string(name), dir);
      }
    }
  }
  return paths;
}

CgroupPaths OwnCgroupPaths() {
  return ParseCgroupPaths(Contents("/proc/self/cgroup"), Contents("/proc/self/mountinfo"));
}

}  // namespace dp::worker
