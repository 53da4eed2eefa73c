#pragma once

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file_descriptor.h"

namespace dp {

// The service manager's side of a NotifySocket, for tests: a socket in the abstract namespace.
class NotifyListener {
 public:
  NotifyListener() : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    // Given only the family, the system chooses an address.
    DP_CHECK(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)) == 0);
    socklen_t size = sizeof(address);
    DP_CHECK(getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    const size_t length = size - offsetof(sockaddr_un, sun_path) - 1;
    name_ = absl::StrCat("@", std::string(address.sun_path + 1, length));
  }

  // In the form of NOTIFY_SOCKET.
  const std::string& name() const { return name_; }
  // The next message; empty if there is none.
  std::string Next() { return Receive(MSG_DONTWAIT); }
  // Waits for the next message; empty after a minute without one.
  std::string Await() {
    const timeval patience{.tv_sec = 60, .tv_usec = 0};
    DP_CHECK(setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
    return Receive(0);
  }

 private:
  std::string Receive(int flags) {
    char message[1024];
    const ssize_t size = recv(fd_.get(), message, sizeof(message), flags);
    return size > 0 ? std::string(message, static_cast<size_t>(size)) : "";
  }

  FileDescriptor fd_;
  std::string name_;
};

}  // namespace dp
