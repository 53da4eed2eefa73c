#include "worker/agent/listener_probe.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/host_port.h"

namespace dp::worker {
namespace {

constexpr int kPatienceMs = 500;

// The error of a connection's try; 0: accepted.
int TryToConnect(const addrinfo& address) {
  const int socket = ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return errno;
  int error = connect(socket, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd waiting{.fd = socket, .events = POLLOUT, .revents = 0};
    error = ETIMEDOUT;
    socklen_t size = sizeof(error);
    if (poll(&waiting, 1, kPatienceMs) == 1) {
      getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  close(socket);
  return error;
}

}  // namespace

ListenerProbe::ListenerProbe(std::string host_port) : host_port_(std::move(host_port)) { LookUp(); }

void ListenerProbe::LookUp() {
  const auto parsed = ParseHostPort(host_port_);
  if (!parsed.ok()) return;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(parsed->host.c_str(), parsed->port.c_str(), &hints, &found) == 0) {
    found_.reset(found);
  }
}

bool ListenerProbe::NobodyListens() {
  if (found_ == nullptr) LookUp();
  bool refused = found_ != nullptr;
  for (const addrinfo* each = found_.get(); each != nullptr; each = each->ai_next) {
    refused &= TryToConnect(*each) == ECONNREFUSED;
  }
  return refused;
}

}  // namespace dp::worker
