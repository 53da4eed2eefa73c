#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file_descriptor.h"
#include "base/status.h"
#include "worker/agent/device_memory.h"

namespace dp::worker {
namespace {

// It takes a second or two where the driver is not kept loaded.
constexpr absl::Duration kAnswerPatience = absl::Seconds(20);
constexpr size_t kOutputBytesMax = 4096;

// What comes until the other end is closed, time is over, or it is too much.
std::string ReadAll(const FileDescriptor& from) {
  const absl::Time deadline = absl::Now() + kAnswerPatience;
  std::string text;
  for (;;) {
    pollfd fd{from.get(), POLLIN, 0};
    const int wait_ms = static_cast<int>(absl::ToInt64Milliseconds(deadline - absl::Now()));
    if (wait_ms <= 0 || poll(&fd, 1, wait_ms) <= 0) return text;
    char bytes[512];
    const ssize_t size = read(from.get(), bytes, sizeof(bytes));
    if (size <= 0 || text.size() > kOutputBytesMax) return text;
    text.append(bytes, static_cast<size_t>(size));
  }
}

// What the program says, on both of its streams.
absl::StatusOr<std::string> Run(std::vector<std::string> argv) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  const FileDescriptor ours(ends[0]);
  FileDescriptor theirs(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), 2);
  std::vector<char*> pointers;
  for (std::string& each : argv) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  pid_t pid = 0;
  const int error =
      posix_spawnp(&pid, argv[0].c_str(), &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  theirs.Close();
  if (error != 0) return absl::UnavailableError(absl::StrCat(argv[0], ": ", std::strerror(error)));
  std::string text = ReadAll(ours);
  kill(pid, SIGKILL);  // one that has closed its output has ended, or has nothing more to say
  waitpid(pid, nullptr, 0);
  return text;
}

class Smi final : public DeviceMemorySource {
 public:
  explicit Smi(std::string program) : program_(std::move(program)) {}

  absl::StatusOr<int64_t> BytesInUse(const std::string& device) override {
    DP_ASSIGN_OR_RETURN(const std::string output,
                        Run({program_, "--id=" + device, "--query-gpu=memory.used",
                             "--format=csv,noheader,nounits"}));
    const absl::string_view text = absl::StripAsciiWhitespace(output);
    int64_t mib = 0;
    if (absl::SimpleAtoi(text, &mib)) return mib << 20;
    return absl::UnavailableError(absl::StrCat(program_, " on ", device, ": ",
                                               text.empty() ? "no answer" : std::string(text)));
  }

 private:
  const std::string program_;
};

}  // namespace

std::unique_ptr<DeviceMemorySource> NvidiaSmi(std::string program) {
  return std::make_unique<Smi>(std::move(program));
}

}  // namespace dp::worker
