#include "base/program/notify_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/program/log.h"

namespace dp {
namespace {

// A third: one late message must not make a working loop look hung.
constexpr int kPulsesPerWatchdog = 3;

std::string Take(const char* variable) {
  const char* value = std::getenv(variable);
  const std::string taken = value == nullptr ? "" : value;
  unsetenv(variable);
  return taken;
}

// Connects to a path, or to "@name" in Linux's abstract namespace. Not valid: the name has neither
// form, or nobody listens there.
FileDescriptor ConnectTo(const std::string& socket_name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const bool known = !socket_name.empty() && (socket_name[0] == '/' || socket_name[0] == '@');
  if (!known || socket_name.size() >= sizeof(address.sun_path)) return FileDescriptor();
  std::memcpy(address.sun_path, socket_name.data(), socket_name.size());
  if (socket_name[0] == '@') address.sun_path[0] = '\0';
  FileDescriptor fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_name.size());
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) fd.Close();
  return fd;
}

}  // namespace

NotifySocket::NotifySocket(const std::string& socket, absl::Duration watchdog)
    : fd_(ConnectTo(socket)) {
  if (fd_.valid()) {
    pulse_ = watchdog / kPulsesPerWatchdog;
  } else if (!socket.empty()) {
    Log(Severity::kWarning, "service_manager_not_told", {{"socket", socket}});
  }
}

NotifySocket NotifySocket::TakeFromEnvironment() {
  const std::string socket = Take("NOTIFY_SOCKET");
  const std::string period = Take("WATCHDOG_USEC");
  const std::string pid = Take("WATCHDOG_PID");
  int64_t microseconds = 0;
  const bool watched = absl::SimpleAtoi(period, &microseconds) && microseconds > 0 &&
                       (pid.empty() || pid == absl::StrCat(getpid()));
  return NotifySocket(socket,
                      watched ? absl::Microseconds(microseconds) : absl::InfiniteDuration());
}

void NotifySocket::Ready(absl::string_view status) const {
  Send(absl::StrCat("READY=1\nSTATUS=", status));
}

void NotifySocket::Status(absl::string_view status) const { Send(absl::StrCat("STATUS=", status)); }

void NotifySocket::Stopping() const { Send("STOPPING=1"); }

void NotifySocket::Alive(absl::Time now) {
  if (pulse_ == absl::InfiniteDuration()) return;
  // A clock that was set back must not silence the loop.
  const bool recent = now >= alive_at_ && now - alive_at_ < pulse_;
  if (recent) return;
  alive_at_ = now;
  Send("WATCHDOG=1");
}

// A manager that does not read must not hold up the service.
void NotifySocket::Send(absl::string_view message) const {
  if (!fd_.valid()) return;
  (void)send(fd_.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace dp
