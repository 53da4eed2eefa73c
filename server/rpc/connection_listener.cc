#include "server/rpc/connection_listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/program/descriptor_limit.h"
#include "base/socket_end.h"

namespace dp::server {
namespace {

// The first byte of a TLS connection: a handshake record (RFC 8446, section 5.1).
constexpr unsigned char kTlsHandshake = 22;
// Without descriptors the kernel would report the listener as readable again and again.
constexpr absl::Duration kRestWithoutDescriptors = absl::Milliseconds(100);
constexpr absl::Duration kLookEvery = absl::Seconds(1);

}  // namespace

ConnectionListener::ConnectionListener(FileDescriptor listener, const Acceptors& acceptors,
                                       const Limits& limits)
    : listener_(std::move(listener)),
      acceptors_(acceptors),
      limits_(limits),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      end_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      turns_(limits.handshakes),
      open_(limits.open_of_host),
      full_("connections_refused") {
  DP_CHECK(epoll_.valid() && end_.valid());
  Watch(listener_.get());
  Watch(end_.get());
  thread_ = std::jthread([this] {
    pthread_setname_np(pthread_self(), "dp-listener");
    Run();
  });
}

ConnectionListener::~ConnectionListener() {
  const uint64_t one = 1;
  DP_CHECK(write(end_.get(), &one, sizeof(one)) == sizeof(one));
  thread_.join();
}

void ConnectionListener::Run() {
  absl::Time look_at = absl::Now() + kLookEvery;
  while (true) {
    std::array<epoll_event, 64> events{};
    const int ready = epoll_wait(epoll_.get(), events.data(), events.size(),
                                 static_cast<int>(absl::ToInt64Milliseconds(Patience())));
    for (int i = 0; i < ready; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == end_.get()) return;
      fd == listener_.get() ? AcceptAll() : Heard(fd);
    }
    BeginHandshakes();
    if (absl::Now() < look_at) continue;
    CloseOverdue();
    look_at = absl::Now() + kLookEvery;
  }
}

// Rounded up: the turn has come by then.
absl::Duration ConnectionListener::Patience() const {
  if (turns_.empty()) return kLookEvery;
  const absl::Time now = absl::Now();
  return std::min(turns_.next_at(now) - now + absl::Milliseconds(1), kLookEvery);
}

void ConnectionListener::AcceptAll() {
  while (true) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    FileDescriptor socket(accept4(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size,
                                  SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        absl::SleepFor(kRestWithoutDescriptors);
      }
      if (errno == ECONNABORTED || errno == EINTR) continue;
      return;
    }
    Add(std::move(socket), SocketHost(address));
  }
}

void ConnectionListener::Add(FileDescriptor socket, std::string host) {
  const int on = 1;
  (void)setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (!FindDescriptor(socket)) return;
  const int fd = socket.get();
  open_.Remove(fd);  // gRPC has closed the one that had this number
  if (!HasRoom(host)) return;
  if (of_host_[host] >= limits_.silent_of_host) CloseOldestOf(host);
  if (silent_.size() >= limits_.silent) CloseOldestOf("");
  ++of_host_[host];
  silent_.emplace(fd, Silent{std::move(socket), std::move(host), absl::Now()});
  Watch(fd);
}

bool ConnectionListener::FindDescriptor(FileDescriptor& socket) {
  if (!IsReservedDescriptor(socket.get())) return true;
  full_.Failed(absl::ResourceExhaustedError(
      "the process has no descriptors for more connections; raise its limit on open files"));
  if (silent_.empty()) return false;
  CloseOldestOf("");
  socket = FileDescriptor(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));  // the lowest that is free
  return socket.valid() && !IsReservedDescriptor(socket.get());
}

bool ConnectionListener::HasRoom(const std::string& host) {
  if (open_.HasRoom(host, absl::Now(), [this](int fd) { return IsOpen(fd); })) return true;
  full_.Failed(absl::ResourceExhaustedError(
      absl::StrCat(host, " has ", limits_.open_of_host,
                   " connections open, which is the limit of --connections-per-host")));
  return false;
}

void ConnectionListener::Watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  DP_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0);
}

// The kernel forgets what it watches when the last descriptor of it is closed.
void ConnectionListener::WatchForEnd(int fd) {
  epoll_event event{};
  event.events = EPOLLET;  // only that both sides have ended it, and once
  event.data.fd = fd;
  DP_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0);
}

bool ConnectionListener::IsOpen(int fd) const {
  epoll_event event{};
  event.events = EPOLLET;
  event.data.fd = fd;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0;
}

void ConnectionListener::Heard(int fd) {
  const auto silent = silent_.find(fd);
  if (silent == silent_.end()) {
    if (!waiting_.contains(fd)) open_.Remove(fd);
    return;
  }
  unsigned char first = 0;
  const ssize_t got = recv(fd, &first, 1, MSG_PEEK);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  Acceptor* const acceptor = got != 1                 ? nullptr
                             : first == kTlsHandshake ? acceptors_.tls
                                                      : acceptors_.plain_text;
  const bool may_wait = acceptor == nullptr || acceptor != acceptors_.tls ||
                        turns_.Add(silent->second.host, fd, absl::Now());
  if (acceptor == nullptr || !may_wait) return Close(silent);
  WatchForEnd(fd);
  waiting_.emplace(fd, Waiting{std::move(silent->second.socket), silent->second.host});
  Close(silent);
  if (acceptor != acceptors_.tls) PassOn(fd, *acceptor);
}

void ConnectionListener::PassOn(int fd, Acceptor& acceptor) {
  const auto waiting = waiting_.find(fd);
  if (!HasRoom(waiting->second.host)) return void(waiting_.erase(waiting));
  open_.Add(waiting->second.host, fd);
  Acceptor::NewConnectionParameters connection;
  connection.listener_fd = listener_.get();
  connection.fd = waiting->second.socket.Release();
  waiting_.erase(waiting);
  acceptor.HandleNewConnection(&connection);
}

void ConnectionListener::BeginHandshakes() {
  while (const std::optional<int> fd = turns_.Take(absl::Now())) PassOn(*fd, *acceptors_.tls);
}

void ConnectionListener::Close(std::map<int, Silent>::iterator silent) {
  const auto host = of_host_.find(silent->second.host);
  if (--host->second == 0) of_host_.erase(host);
  silent_.erase(silent);
}

void ConnectionListener::CloseOverdue() {
  for (const int fd : turns_.TakeOverdue(absl::Now())) waiting_.erase(fd);
  const absl::Time overdue = absl::Now() - limits_.silence;
  for (auto it = silent_.begin(); it != silent_.end();) {
    const auto silent = it++;
    if (silent->second.since < overdue) Close(silent);
  }
}

// An empty `host` stands for any.
void ConnectionListener::CloseOldestOf(const std::string& host) {
  auto oldest = silent_.end();
  for (auto it = silent_.begin(); it != silent_.end(); ++it) {
    if (!host.empty() && it->second.host != host) continue;
    if (oldest == silent_.end() || it->second.since < oldest->second.since) oldest = it;
  }
  if (oldest != silent_.end()) Close(oldest);
}

}  // namespace dp::server
