#include "worker/agent/processes/oom_kills.h"

#include <fstream>
#include <optional>

namespace dp::worker {
namespace {

// The files hold lines "name number".
std::optional<int64_t> NumberIn(const std::string& path, const std::string& wanted) {
  std::ifstream file(path);
  std::string name;
  int64_t number = 0;
  while (file >> name >> number) {
    if (name == wanted) return number;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> OomKillsIn(const std::string& cgroup) {
  const auto kills = NumberIn(cgroup + "/memory.events", "oom_kill");
  return kills.has_value() ? kills : NumberIn(cgroup + "/memory.oom_control", "oom_kill");
}

int64_t CountOomKills(const std::string& cgroup, const std::string& proc) {
  if (!cgroup.empty()) {
    const auto kills = OomKillsIn(cgroup);
    if (kills.has_value()) return *kills;
  }
  return NumberIn(proc + "/vmstat", "oom_kill").value_or(0);
}

}  // namespace dp::worker
