#include "worker/agent/stores/listener_probe.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/host_port.h"

namespace dp::worker {
namespace {

constexpr int kPatienceMs = 500;

// The error of a connection attempt; 0: accepted.
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

ListenerProbe::Addresses ListenerProbe::Resolve(const std::string& host_port) {
  const auto parsed = ParseHostPort(host_port);
  if (!parsed.ok()) return nullptr;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(parsed->host.c_str(), parsed->port.c_str(), &hints, &found) != 0) return nullptr;
  return {found, freeaddrinfo};
}

ListenerProbe::ListenerProbe(std::string host_port, Resolver resolver)
    : host_port_(std::move(host_port)),
      resolver_(std::move(resolver)),
      found_(resolver_(host_port_)) {
  thread_ = std::jthread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "look_up");
}

ListenerProbe::~ListenerProbe() {
  MutexLock lock(mu_);
  ended_ = true;
  changed_.NotifyAll();
}

void ListenerProbe::Loop() {
  while (AwaitWanted()) {
    Addresses found = resolver_(host_port_);
    if (found == nullptr) continue;
    MutexLock lock(mu_);
    found_ = std::move(found);
  }
}

bool ListenerProbe::AwaitWanted() {
  MutexLock lock(mu_);
  while (!wanted_ && !ended_) changed_.Wait(mu_);
  wanted_ = false;
  return !ended_;
}

void ListenerProbe::LookUpAgain() {
  MutexLock lock(mu_);
  wanted_ = true;
  changed_.NotifyAll();
}

ListenerProbe::Addresses ListenerProbe::found() const {
  MutexLock lock(mu_);
  return found_;
}

bool ListenerProbe::NobodyListens() {
  const Addresses found = this->found();
  if (found == nullptr) LookUpAgain();
  bool refused = found != nullptr;
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    refused &= TryToConnect(*each) == ECONNREFUSED;
  }
  return refused;
}

}  // namespace dp::worker
