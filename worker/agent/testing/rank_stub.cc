// Stands for a rank's program in tests:
//
//    rank_stub exit CODE        exits with CODE
//    rank_stub signal NUMBER    dies of this signal
//    rank_stub wait FIFO        writes "ready" to FIFO and waits to be stopped
//    rank_stub stubborn FIFO    ignores SIGTERM, as do its child and its grandchild, which is in
//                               another session; FIFO gets "ready" when all run, and is closed
//                               when all have ended
//    rank_stub leave FIFO       like stubborn, but exits with 0 and leaves the other two behind
//    rank_stub take MIB         allocates so much memory, then exits with 0
//    rank_stub write BYTES      writes so many to standard output, without a newline
//    rank_stub env NAME...      prints the values
//    rank_stub inherited        prints its open descriptors, their soft limit, the hard limit of
//                               core dumps, and the signals that it blocks and ignores
//    rank_stub escape DIRECTORY FIFO
//                               moves to the cgroup, then is like wait, but ignores SIGTERM
//    rank_stub                  takes mode and argument from STUB_MODE and STUB_ARGUMENT

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <string_view>

namespace {

[[noreturn]] void WaitForEver() {
  for (;;) pause();
}

int OpenFifo(const char* path) { return open(path, O_WRONLY); }

void SayReady(int fifo) { (void)!write(fifo, "ready\n", 6); }

// Forks a child and a grandchild that hold `fifo` open. The grandchild reports that all run.
void ForkStubbornFamily(int fifo) {
  signal(SIGTERM, SIG_IGN);
  if (fork() != 0) return;
  if (fork() != 0) WaitForEver();
  setsid();
  SayReady(fifo);
  WaitForEver();
}

int Write(size_t bytes) {
  const std::string block(1 << 16, 'x');
  while (bytes > 0) {
    const ssize_t written = write(1, block.data(), std::min(bytes, block.size()));
    if (written <= 0) return 1;
    bytes -= static_cast<size_t>(written);
  }
  return 0;
}

int Take(size_t mib) {
  std::string memory(mib << 20, 'x');
  return memory[memory.size() / 2] == 'x' ? 0 : 1;
}

int Leave(int fifo) {
  // Returns only once the family runs, so that there is something to leave behind.
  int ready[2];
  if (pipe(ready) != 0) return 1;
  ForkStubbornFamily(ready[1]);
  char line[6];
  if (read(ready[0], line, sizeof(line)) != sizeof(line)) return 1;
  SayReady(fifo);
  return 0;
}

int PrintVariables(char** names) {
  for (; *names != nullptr; ++names) std::printf("%s=%s\n", *names, std::getenv(*names));
  return 0;
}

int PrintInherited() {
  std::set<int> descriptors;
  DIR* entries = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(entries)) {
    const int fd = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && fd != dirfd(entries)) descriptors.insert(fd);
  }
  closedir(entries);
  std::printf("descriptors");
  for (const int fd : descriptors) std::printf(" %d", fd);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  std::printf("\nlimit %llu\n", static_cast<unsigned long long>(limit.rlim_cur));  // NOLINT: printf
  getrlimit(RLIMIT_CORE, &limit);
  std::printf("core %llu\n", static_cast<unsigned long long>(limit.rlim_max));  // NOLINT: printf
  std::ifstream status("/proc/self/status");
  for (std::string name, value; status >> name;) {
    if (name != "SigBlk:" && name != "SigIgn:") continue;
    status >> value;
    // Omits the C library's own signals, 32 and 33, which posix_spawn leaves ignored.
    std::printf("%s %lx\n", name.c_str(), std::stoul(value, nullptr, 16) & 0x7fffffff);
  }
  return 0;
}

int Escape(const char* cgroup, const char* fifo) {
  signal(SIGTERM, SIG_IGN);
  std::ofstream(std::string(cgroup) + "/cgroup.procs") << 0 << std::flush;
  SayReady(OpenFifo(fifo));
  WaitForEver();
}

int Play(std::string_view mode, const char* argument) {
  if (mode == "exit") return std::atoi(argument);
  if (mode == "signal") return raise(std::atoi(argument));
  if (mode == "take") return Take(std::strtoull(argument, nullptr, 10));
  if (mode == "write") return Write(std::strtoull(argument, nullptr, 10));
  const int fifo = OpenFifo(argument);
  if (mode == "leave") return Leave(fifo);
  if (mode == "stubborn") ForkStubbornFamily(fifo);
  if (mode == "wait") SayReady(fifo);
  WaitForEver();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1) return Play(std::getenv("STUB_MODE"), std::getenv("STUB_ARGUMENT"));
  if (argc == 2 && std::string_view(argv[1]) == "inherited") return PrintInherited();
  if (argc == 2) return 2;
  if (argc == 4 && std::string_view(argv[1]) == "escape") return Escape(argv[2], argv[3]);
  if (std::string_view(argv[1]) == "env") return PrintVariables(argv + 2);
  return Play(argv[1], argv[2]);
}
