#include "worker/agent/testing/fifo.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/check.h"

namespace dp::worker {
namespace {

constexpr int kPatienceMs = 20'000;

}  // namespace

// Opens without waiting for a writer; poll() then waits for the first one.
Fifo::Fifo(const std::string& path) : path_(path) {
  DP_CHECK(mkfifo(path.c_str(), 0600) == 0);
  reader_ = FileDescriptor(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  DP_CHECK(reader_.valid());
}

std::string Fifo::Read() {
  pollfd fd{reader_.get(), POLLIN, 0};
  if (poll(&fd, 1, kPatienceMs) != 1) return "timeout";
  char bytes[4096];
  const ssize_t size = read(reader_.get(), bytes, sizeof(bytes));
  DP_CHECK(size >= 0);
  return std::string(bytes, static_cast<size_t>(size));
}

TemporaryDirectory::TemporaryDirectory() {
  path_ = (std::filesystem::temp_directory_path() / "dp-test-XXXXXX").string();
  DP_CHECK(mkdtemp(path_.data()) != nullptr);
}

TemporaryDirectory::~TemporaryDirectory() { std::filesystem::remove_all(path_); }

}  // namespace dp::worker
