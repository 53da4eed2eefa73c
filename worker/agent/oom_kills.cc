#include "worker/agent/oom_kills.h"

#include <fstream>
#include <optional>

namespace dp::worker {
namespace {

// Both files hold lines "name number".
std::optional<int64_t> NumberIn(const std::string& path, const std::string& wanted) {
  std::ifstream file(path);
  std::string name;
  int64_t number = 0;
  while (file >> name >> number) {
    if (name == wanted) return number;
  }
  return std::nullopt;
}

// "0::/user.slice/..." is the line of the unified hierarchy.
std::optional<std::string> CgroupOfThisProcess(const std::string& proc) {
  std::ifstream file(proc + "/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return std::nullopt;
}

}  // namespace

int64_t CountOomKills(const std::string& proc, const std::string& cgroups) {
  if (const auto cgroup = CgroupOfThisProcess(proc)) {
    const auto kills = NumberIn(cgroups + *cgroup + "/memory.events", "oom_kill");
    if (kills.has_value()) return *kills;
  }
  return NumberIn(proc + "/vmstat", "oom_kill").value_or(0);
}

}  // namespace dp::worker
