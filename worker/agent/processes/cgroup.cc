#include "worker/agent/processes/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

namespace dp::worker {
namespace {

bool Write(const std::string& path, const char* text) {
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file.valid() && write(file.get(), text, std::strlen(text)) >= 0;
}

// The cgroups directly below.
std::vector<std::string> ChildrenOf(const std::string& dir) {
  std::vector<std::string> children;
  DIR* entries = opendir(dir.c_str());
  if (entries == nullptr) return children;
  while (const dirent* entry = readdir(entries)) {
    const std::string name = entry->d_name;
    struct stat status;
    const std::string path = dir + "/" + name;
    if (name == "." || name == ".." || stat(path.c_str(), &status) != 0) continue;
    if (S_ISDIR(status.st_mode)) children.push_back(path);
  }
  closedir(entries);
  return children;
}

// In the cgroup and below. Processes of a PID namespace that is invisible here are listed as 0.
void AddProcesses(const std::string& dir, std::vector<pid_t>* pids) {
  std::ifstream file(dir + "/cgroup.procs");
  for (pid_t pid = 0; file >> pid;) pids->push_back(pid);
  for (const std::string& child : ChildrenOf(dir)) AddProcesses(child, pids);
}

std::vector<pid_t> ProcessesIn(const std::string& dir) {
  std::vector<pid_t> pids;
  AddProcesses(dir, &pids);
  return pids;
}

// A frozen process forks no more. In v1 it takes no signal until it is thawed.
void SetFrozen(const std::string& dir, bool frozen) {
  if (Write(dir + "/cgroup.freeze", frozen ? "1" : "0")) return;
  Write(dir + "/freezer.state", frozen ? "FROZEN" : "THAWED");
}

}  // namespace

bool JoinCgroup(const std::string& dir) { return Write(dir + "/cgroup.procs", "0"); }

void KillCgroup(const std::string& dir) {
  if (Write(dir + "/cgroup.kill", "1")) return;
  SetFrozen(dir, true);
  for (const pid_t pid : ProcessesIn(dir)) {
    if (pid > 0) kill(pid, SIGKILL);
  }
  SetFrozen(dir, false);
}

bool LimitMemory(const std::string& dir, int64_t bytes) {
  const std::string limit = std::to_string(bytes);
  if (Write(dir + "/memory.max", limit.c_str())) {
    Write(dir + "/memory.swap.max", "0");  // absent without swap
    return true;
  }
  if (!Write(dir + "/memory.limit_in_bytes", limit.c_str())) return false;
  Write(dir + "/memory.memsw.limit_in_bytes", limit.c_str());  // absent where swap is not counted
  return true;
}

bool EnableMemory(const std::string& dir) {
  return Write(dir + "/cgroup.subtree_control", "+memory");
}

void DisableMemory(const std::string& dir) { Write(dir + "/cgroup.subtree_control", "-memory"); }

bool RemoveCgroup(const std::string& dir) {
  for (const std::string& child : ChildrenOf(dir)) RemoveCgroup(child);
  return rmdir(dir.c_str()) == 0 || errno == ENOENT;
}

CgroupWatch::CgroupWatch(std::string dir)
    : dir_(std::move(dir)),
      events_(open((dir_ + "/cgroup.events").c_str(), O_RDONLY | O_CLOEXEC)) {}

bool CgroupWatch::Populated() {
  if (!events_.valid()) return !ProcessesIn(dir_).empty();
  char text[256];
  // The kernel keeps POLLPRI per open file, so the read must use this descriptor.
  const ssize_t size = pread(events_.get(), text, sizeof(text) - 1, 0);
  if (size <= 0) {
    events_.Close();  // the cgroup was removed; poll() would report an error for ever
    return false;
  }
  text[size] = '\0';
  return std::strstr(text, "populated 1") != nullptr;
}

}  // namespace dp::worker
