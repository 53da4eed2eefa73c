// Files of the kernel and of the daemon's own state directory: cgroups and mounts, counts of
// out-of-memory kills, exit records. A file that was cut short or changed is no record.
//
// The first byte chooses the parser.

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/testing/scratch_dir.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/seeds.h"
#include "worker/agent/processes/cgroup_paths.h"
#include "worker/agent/processes/exit_record.h"
#include "worker/agent/processes/oom_kills.h"

namespace dp::fuzz::host {
namespace {

using worker::ExitRecord;

// The form that WriteExitRecord has given its files since the first release with all five fields.
std::string RecordText(const ExitRecord& record) {
  return absl::StrCat(record.exit.how == Exit::How::kCode ? "code " : "signal ", record.exit.number,
                      record.stopped ? " 1" : " 0", record.oom ? " 1 " : " 0 ",
                      record.at_unix_nanos, "\n");
}

void CheckExitRecord(absl::string_view text) {
  const auto record = worker::ReadExitRecord(MemoryFile(text).path());
  DP_CHECK(!record.has_value() || RecordText(*record) == text);
}

// A process's cgroups, a zero byte, its mounts.
void CheckCgroups(absl::string_view text) {
  const std::string cgroups(TakePart(&text, '\0'));
  const std::string mounts(text);
  const worker::CgroupPaths paths = worker::ParseCgroupPaths(cgroups, mounts);
  const auto hierarchies = static_cast<size_t>(std::count(cgroups.begin(), cgroups.end(), '\n') +
                                               std::count(cgroups.begin(), cgroups.end(), ',') + 1);
  DP_CHECK(paths.size() <= hierarchies);
  for (const auto& [hierarchy, dir] : paths) DP_CHECK(!dir.empty());
  DP_CHECK(worker::ParseCgroupPaths(cgroups, "").empty());
}

void CheckOomKills(absl::string_view text) {
  static const ScratchDir& cgroup = *new ScratchDir();
  std::ofstream(cgroup.path() / "memory.events", std::ios::binary) << text;
  const auto kills = worker::OomKillsIn(cgroup.path());
  DP_CHECK(!kills.has_value() || absl::StrContains(text, "oom_kill"));
}

constexpr void (*kParsers[])(absl::string_view) = {CheckExitRecord, CheckCgroups, CheckOomKills};

}  // namespace

void Run(absl::string_view input) { kParsers[TakeChoice(&input) % std::size(kParsers)](input); }

std::vector<std::string> Seeds() {
  const std::string zero(1, '\0');
  return {
      Chosen(0, "code 0 0 0 1764228000000000000\n"),
      Chosen(0, "signal 9 1 1 1764228000000000000\n"),
      Chosen(1, absl::StrCat("0::/user.slice\n", zero,
                             "31 23 0:28 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n")),
      Chosen(1, absl::StrCat("9:cpu,cpuacct:/a\n4:memory:/a\n", zero,
                             "31 23 0:28 /a /sys/fs/c\\040g rw - cgroup cgroup rw,memory\n"
                             "32 23 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct")),
      Chosen(2, "low 0\nhigh 0\nmax 3\noom 1\noom_kill 9223372036854775807\n"),
      Chosen(2, "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")};
}

}  // namespace dp::fuzz::host
