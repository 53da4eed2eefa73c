// Files of the kernel and of the daemon's own state directory: cgroups and mounts, processes,
// counts of out-of-memory kills, exit records, incarnations. A file that was cut short or changed
// is no record.
//
// The first byte chooses the parser.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/testing/scratch_dir.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/seeds.h"
#include "worker/agent/incarnation_record.h"
#include "worker/agent/processes/cgroup.h"
#include "worker/agent/processes/cgroup_paths.h"
#include "worker/agent/processes/exit_record.h"
#include "worker/agent/processes/oom_kills.h"
#include "worker/agent/processes/process_tree.h"
#include "worker/agent/state_dir.h"

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

// /proc/PID/stat, of whatever form, and of a process with the input as its name.
void CheckProcessStat(absl::string_view text) {
  if (const auto stat = worker::ParseProcessStat(std::string(text).c_str()); stat.has_value()) {
    DP_CHECK(absl::StrContains(text, ")") && absl::StrContains(text, absl::StrCat(stat->parent)));
  }
  const absl::string_view name = text.substr(0, text.find('\0'));
  for (const bool zombie : {false, true}) {
    const std::string line = absl::StrCat("123 (", name, ") ", zombie ? "Z" : "S", " 77 123 123 0");
    DP_CHECK(worker::ParseProcessStat(line.c_str()) == worker::ProcessStat({77, zombie}));
  }
}

// cgroup.events, a zero byte, cgroup.procs.
void CheckPopulated(absl::string_view text) {
  static const ScratchDir& cgroup = *new ScratchDir();
  const absl::string_view events = TakePart(&text, '\0');
  std::ofstream(cgroup.path() / "cgroup.procs", std::ios::binary) << text;
  std::filesystem::remove(cgroup.path() / "cgroup.events");
  const bool listed = worker::CgroupWatch(cgroup.path()).Populated();
  DP_CHECK(!listed || absl::c_any_of(text, absl::ascii_isdigit));
  std::ofstream(cgroup.path() / "cgroup.events", std::ios::binary) << events;
  worker::CgroupWatch watch(cgroup.path());
  DP_CHECK(!watch.Populated() || absl::StrContains(events, "populated 1"));
  DP_CHECK((watch.fd() < 0) == events.empty());
}

void CheckIncarnations(absl::string_view text) {
  static const ScratchDir& state = *new ScratchDir();
  constexpr char kBoot[] = "9d3b6a52";
  const std::string file = state.path().string() + worker::kIncarnationsName;
  std::ofstream(file, std::ios::binary) << text;
  worker::IncarnationRecord record(state.path(), kBoot);
  std::vector<Incarnation> wanted = record.recorded();
  DP_CHECK(wanted.size() <= worker::IncarnationRecord::kKept);
  DP_CHECK(wanted.empty() || absl::StrContains(text, kBoot));
  if (wanted.size() == worker::IncarnationRecord::kKept) wanted.erase(wanted.begin());
  wanted.emplace_back(4711);
  DP_CHECK(record.Add(Incarnation(4711)).ok());
  DP_CHECK(worker::IncarnationRecord(state.path(), kBoot).recorded() == wanted);
  DP_CHECK(worker::IncarnationRecord(state.path(), "of another boot").recorded().empty());
}

constexpr void (*kParsers[])(absl::string_view) = {CheckExitRecord, CheckCgroups,
                                                   CheckOomKills,   CheckProcessStat,
                                                   CheckPopulated,  CheckIncarnations};

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
      Chosen(2, "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
      Chosen(3, "123 (python3) S 77 123 123 0 -1 4194304 0 0"),
      Chosen(3, "123 (a) Z 1 (b)) X 77 123"),
      Chosen(4, absl::StrCat("populated 1\nfrozen 0\n", zero)),
      Chosen(4, absl::StrCat("", zero, "4711\n0\n12\n")),
      Chosen(5, "9d3b6a52 345\n9d3b6a52 18446744073709551615\n"),
      Chosen(5, "12345678 345\n9d3b6a52")};
}

}  // namespace dp::fuzz::host
