#include "client/job/input_file.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/file_descriptor.h"
#include "base/status.h"

namespace dp::client {
namespace {

absl::Status Because(int error) { return absl::NotFoundError(std::strerror(error)); }

// Waits for data or the end of `fd`. Errors: Cancelled `stop` is readable, which takes precedence.
// poll ignores a descriptor of -1.
absl::Status AwaitData(int fd, int stop) {
  pollfd ready[] = {{.fd = fd, .events = POLLIN, .revents = 0},
                    {.fd = stop, .events = POLLIN, .revents = 0}};
  while (poll(ready, 2, -1) < 0 && errno == EINTR) {
  }
  return ready[1].revents == 0 ? absl::OkStatus() : absl::CancelledError("interrupted");
}

}  // namespace

absl::StatusOr<std::string> ReadInput(const std::string& path, size_t bytes_max, int stop) {
  // A pipe that nobody has opened for writing yet would block even open().
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file.valid()) return Because(errno);
  std::string text(bytes_max, '\0');
  size_t size = 0;
  while (size < text.size()) {
    DP_RETURN_IF_ERROR(AwaitData(file.get(), stop));
    const ssize_t count = read(file.get(), text.data() + size, text.size() - size);
    if (count == 0) break;
    if (count > 0) {
      size += static_cast<size_t>(count);
    } else if (errno != EAGAIN && errno != EINTR) {
      return Because(errno);
    }
  }
  text.resize(size);
  return text;
}

}  // namespace dp::client
