#include "worker/agent/processes/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/file_descriptor.h"

namespace dp::worker {
namespace {

// Nothing if the process is gone meanwhile.
std::optional<ProcessStat> ReadStat(pid_t pid) {
  char path[32];
  std::snprintf(path, sizeof(path), "/proc/%d/stat", pid);
  const FileDescriptor file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return std::nullopt;
  char text[512];
  const ssize_t size = read(file.get(), text, sizeof(text) - 1);
  if (size <= 0) return std::nullopt;
  text[size] = '\0';
  return ParseProcessStat(text);
}

std::map<pid_t, ProcessStat> AllProcesses() {
  std::map<pid_t, ProcessStat> all;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return all;
  while (const dirent* entry = readdir(proc)) {
    const pid_t pid = std::atoi(entry->d_name);
    const auto stat = pid > 0 ? ReadStat(pid) : std::nullopt;
    if (stat.has_value()) all[pid] = *stat;
  }
  closedir(proc);
  return all;
}

// Appends the numbers in /proc/PID/task/TID/children. A thread that has ended has no such file.
void AppendChildren(const char* path, std::vector<pid_t>* children) {
  std::FILE* const file = std::fopen(path, "re");
  if (file == nullptr) return;
  pid_t child = 0;
  while (std::fscanf(file, "%d", &child) == 1) children->push_back(child);
  std::fclose(file);
}

// The children of all threads of a process. A process that has ended has none.
void AppendChildrenOf(pid_t pid, std::vector<pid_t>* children) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/task", pid);
  DIR* const threads = opendir(path);
  if (threads == nullptr) return;
  while (const dirent* entry = readdir(threads)) {
    const pid_t thread = std::atoi(entry->d_name);
    if (thread <= 0) continue;
    std::snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, thread);
    AppendChildren(path, children);
  }
  closedir(threads);
}

}  // namespace

// A command's name may hold anything, even spaces and brackets; the last bracket ends it.
std::optional<ProcessStat> ParseProcessStat(const char* text) {
  const char* const name_end = std::strrchr(text, ')');
  if (name_end == nullptr) return std::nullopt;
  const std::string_view rest(name_end);  // such as ") S 77 123"
  if (rest.size() < 5 || rest[1] != ' ' || rest[3] != ' ') return std::nullopt;
  int parent = -1;
  const auto end = std::from_chars(rest.data() + 4, rest.data() + rest.size(), parent);
  if (end.ec != std::errc() || parent < 0) return std::nullopt;
  return ProcessStat{parent, rest[2] == 'Z' || rest[2] == 'X'};
}

std::optional<std::vector<pid_t>> QuickTree(std::vector<pid_t> roots) {
  if (access("/proc/thread-self/children", R_OK) != 0) return std::nullopt;
  // Grows while it is read.
  for (size_t i = 0; i < roots.size(); ++i) AppendChildrenOf(roots[i], &roots);
  return roots;
}

std::vector<pid_t> Descendants(pid_t root) { return Descendants(std::set<pid_t>{root}); }

std::vector<pid_t> Descendants(std::set<pid_t> roots) {
  const std::map<pid_t, ProcessStat> all = AllProcesses();
  std::set<pid_t> tree = std::move(roots);
  std::vector<pid_t> found;
  // A child may have a smaller number than its parent, so repeat until nothing is added.
  for (size_t known = 0; known != tree.size();) {
    known = tree.size();
    for (const auto& [pid, stat] : all) {
      if (!tree.contains(stat.parent) || !tree.insert(pid).second) continue;
      if (!stat.zombie) found.push_back(pid);
    }
  }
  return found;
}

void KillDescendants(pid_t root) {
  for (const pid_t pid : Descendants(root)) kill(pid, SIGKILL);
}

std::vector<pid_t> Children(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& [pid, stat] : AllProcesses()) {
    if (stat.parent == parent) children.push_back(pid);
  }
  return children;
}

}  // namespace dp::worker
