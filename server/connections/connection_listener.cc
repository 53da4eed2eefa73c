#include "server/connections/connection_listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/program/descriptor_limit.h"
#include "base/socket_end.h"
#include "server/access/socket_traffic.h"
#include "server/connections/stream_counts.h"

namespace dp::server {
namespace {

// The first byte of a TLS connection: a handshake record (RFC 8446, section 5.1).
constexpr unsigned char kTlsHandshake = 22;
// Nothing reports when the process has free descriptors again.
constexpr absl::Duration kRestWithoutDescriptors = absl::Milliseconds(100);
// For connections that have been silent, or have waited, for too long.
constexpr absl::Duration kLookEvery = absl::Seconds(1);
// For hosts that no longer owe.
constexpr absl::Duration kHoldBackFor = absl::Milliseconds(100);

// The other side has ended a connection, and both have. Each is reported once.
constexpr uint32_t kEnds = EPOLLRDHUP | EPOLLET;

absl::Time Now() { return Clock::Steady().Now(); }

absl::Status NoDescriptors() {
  return absl::ResourceExhaustedError(
      "the process has no descriptors for more connections; raise its limit on open files");
}

// As SocketEnd writes it; empty: the connection has ended.
std::string PeerOf(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  (void)getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return SocketEnd(address);
}

// For epoll_wait. Rounded up: what is due has come by then.
int MillisecondsUntil(absl::Time at, absl::Time now) {
  if (at == absl::InfiniteFuture()) return -1;
  const absl::Duration wait = std::clamp(at - now, absl::ZeroDuration(), absl::Hours(1));
  return static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1))));
}

}  // namespace

ConnectionListener::ConnectionListener(FileDescriptor listener, const Acceptors& acceptors,
                                       const Limits& limits, StrangerConnections& strangers,
                                       Refusals& refusals)
    : listener_(std::move(listener)),
      acceptors_(acceptors),
      limits_(limits),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      end_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      strangers_(strangers),
      refusals_(refusals),
      turns_(limits.handshakes),
      open_(limits.open_of_host),
      abandoned_(limits.abandoned),
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
  while (true) {
    std::array<epoll_event, 64> events{};
    const absl::Time now = Now();
    const int ready = epoll_wait(epoll_.get(), events.data(), events.size(),
                                 MillisecondsUntil(next_at(now), now));
    for (int i = 0; i < ready; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == end_.get()) return;
      fd == listener_.get() ? AcceptAll() : Heard(fd, events[static_cast<size_t>(i)].events);
    }
    DoWhatIsDue(Now());
  }
}

absl::Time ConnectionListener::next_at(absl::Time now) const {
  absl::Time next = std::min(accept_at_, strangers_.next_look());
  if (!turns_.empty()) next = std::min(next, held_back_ ? now + kHoldBackFor : turns_.next_at(now));
  if (!silent_.empty() || !waiting_.empty()) next = std::min(next, looked_at_ + kLookEvery);
  if (open_.size() > 0) next = std::min(next, unread_looked_at_ + UnreadAnswers::kLookEvery);
  if (refused_at_ > absl::InfinitePast()) next = std::min(next, refused_at_ + limits_.calm);
  return next;
}

void ConnectionListener::DoWhatIsDue(absl::Time now) {
  if (now >= accept_at_) SetAccepting(true);
  if (now >= strangers_.next_look()) strangers_.Look(now);
  if (now - unread_looked_at_ >= UnreadAnswers::kLookEvery) ResetThoseWhoDoNotRead(now);
  if (abandoned_.IsDue(refusals_.at_headers(), now)) ResetThoseWhoAbandonCalls(now);
  BeginHandshakes(now);
  if (now - looked_at_ >= kLookEvery) CloseOverdue(now);
  if (now - refused_at_ >= limits_.calm && refused_at_ > absl::InfinitePast()) {
    full_.Worked();
    refused_at_ = absl::InfinitePast();
  }
}

void ConnectionListener::AcceptAll() {
  while (true) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    FileDescriptor socket(accept4(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size,
                                  SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        return SetAccepting(false);
      }
      if (errno == ECONNABORTED || errno == EINTR) continue;
      return;
    }
    Add({std::move(socket), SocketHost(address), SocketEnd(address)});
  }
}

void ConnectionListener::SetAccepting(bool accepting) {
  accept_at_ = accepting ? absl::InfiniteFuture() : Now() + kRestWithoutDescriptors;
  epoll_event event{};
  event.events = accepting ? uint32_t{EPOLLIN} : 0;
  event.data.fd = listener_.get();
  DP_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event) == 0);
}

void ConnectionListener::Add(Client client) {
  auto& [socket, host, end] = client;
  const int on = 1;
  (void)setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (!FindDescriptor(socket)) return;
  const int fd = socket.get();
  Ended(fd);  // gRPC has closed the one that had this number
  strangers_.Ended(fd, Now());
  if (!HasRoom(host)) return;
  if (of_host_[host] >= limits_.silent_of_host) CloseOldestOf(host);
  if (silent_.size() >= limits_.silent) CloseOldestOf("");
  ++of_host_[host];
  silent_.emplace(fd, Silent{std::move(client), Now()});
  Watch(fd);
}

bool ConnectionListener::FindDescriptor(FileDescriptor& socket) {
  if (!IsReservedDescriptor(socket.get())) return true;
  Refused(NoDescriptors());
  if (silent_.empty()) return false;
  CloseOldestOf("");
  socket = FileDescriptor(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));  // the lowest that is free
  return socket.valid() && !IsReservedDescriptor(socket.get());
}

bool ConnectionListener::HasRoom(const std::string& host) {
  if (open_.HasRoom(host, Now(), [this](int fd) { return WatchForEnd(fd); })) return true;
  Refused(absl::ResourceExhaustedError(
      absl::StrCat(host, " has ", limits_.open_of_host,
                   " connections open, which is the limit of --connections-per-host")));
  return false;
}

void ConnectionListener::Refused(const absl::Status& why) {
  refused_at_ = Now();
  full_.Failed(why);
}

void ConnectionListener::Watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  DP_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0);
}

// The kernel forgets what it watches when the last descriptor of it is closed.
bool ConnectionListener::WatchForEnd(int fd) const {
  epoll_event event{};
  event.events = kEnds;
  event.data.fd = fd;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0;
}

void ConnectionListener::Heard(int fd, uint32_t events) {
  const auto silent = silent_.find(fd);
  if (silent == silent_.end()) {
    if (waiting_.contains(fd)) return;
    if ((events & (EPOLLRDHUP | EPOLLHUP)) != 0) strangers_.Ended(fd, Now());
    if ((events & EPOLLHUP) != 0) Ended(fd);
    return;
  }
  unsigned char first = 0;
  const ssize_t got = recv(fd, &first, 1, MSG_PEEK);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  Acceptor* const acceptor = got != 1                 ? nullptr
                             : first == kTlsHandshake ? acceptors_.tls
                                                      : acceptors_.plain_text;
  const bool may_wait = acceptor == nullptr || acceptor != acceptors_.tls ||
                        turns_.Add(silent->second.client.host, fd, Now());
  if (acceptor == nullptr || !may_wait) return Close(silent);
  DP_CHECK(WatchForEnd(fd));
  auto& [socket, host, end] = silent->second.client;
  waiting_.emplace(fd, Client{std::move(socket), host, end});
  Close(silent);
  if (acceptor != acceptors_.tls) PassOn(fd, *acceptor);
}

void ConnectionListener::PassOn(int fd, Acceptor& acceptor) {
  const auto waiting = waiting_.find(fd);
  const std::string& host = waiting->second.host;
  if (!HasRoom(host) || (&acceptor == acceptors_.tls && !AddStranger(waiting->second))) {
    return void(waiting_.erase(waiting));
  }
  open_.Add(host, fd);
  DP_CHECK(WatchForEnd(fd));  // anew, since it may have ended while it waited
  Acceptor::NewConnectionParameters connection;
  connection.listener_fd = listener_.get();
  connection.fd = waiting->second.socket.Release();
  waiting_.erase(waiting);
  acceptor.HandleNewConnection(&connection);
}

bool ConnectionListener::AddStranger(const Client& client) {
  const int fd = client.socket.get();
  if (strangers_.Add(fd, client.host, client.end)) return true;
  Refused(NoDescriptors());
  if (silent_.empty()) return false;
  CloseOldestOf("");
  return strangers_.Add(fd, client.host, client.end);
}

void ConnectionListener::Ended(int fd) {
  open_.Remove(fd);
  unread_.Forget(fd);
}

void ConnectionListener::ResetThoseWhoDoNotRead(absl::Time now) {
  unread_looked_at_ = now;
  std::vector<pollfd> sockets;
  for (const auto& [fd, host] : open_.All()) {
    sockets.push_back({.fd = fd, .events = POLLOUT, .revents = 0});
  }
  if (poll(sockets.data(), sockets.size(), /*timeout=*/0) < 0) return;
  for (const auto& [fd, asked, state] : sockets) {
    if (state != 0) {
      unread_.Forget(fd);
    } else if (unread_.Full(fd, TrafficOn(fd), now)) {
      Reset(fd, absl::ResourceExhaustedError("it does not read its answers"));
    }
  }
}

// The hosts of those who are reset wait for new connections. Otherwise they would go on at once.
void ConnectionListener::ResetThoseWhoAbandonCalls(absl::Time now) {
  const uint64_t rejected = refusals_.at_headers();
  absl::flat_hash_map<std::string, int> by_end;
  for (const auto& [fd, host] : open_.All()) by_end.emplace(PeerOf(fd), fd);
  abandoned_.BeginLook(now);
  CountStreams([&](const StreamCounts& counts) {
    const auto known = by_end.find(counts.end);
    if (known == by_end.end()) return;
    const int fd = known->second;
    by_end.erase(known);  // gRPC may still list an older connection from the same end
    if (!abandoned_.AreTooMany(counts, strangers_.Has(fd))) return;
    strangers_.HoldBack(open_.All().at(fd), now);
    Reset(fd, absl::ResourceExhaustedError("it begins too many calls without their messages"));
  });
  abandoned_.EndLook(rejected, Now());
}

// gRPC may close a connection at any time, and other files then have its number. It is therefore
// held first. If it is still watched then, it is the one that was held.
void ConnectionListener::Reset(int fd, const absl::Status& why) {
  const FileDescriptor held(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!held.valid()) return;
  if (WatchForEnd(fd)) {
    const std::string peer = PeerOf(held.get());
    ResetConnection(held.get());
    refusals_.AddConnection("a client", peer, why, absl::Now());
  }
  Ended(fd);
}

void ConnectionListener::BeginHandshakes(absl::Time now) {
  const auto may_begin = [this, now](const std::string& host) {
    return !strangers_.Owes(host, now);
  };
  while (const std::optional<int> fd = turns_.Take(now, may_begin)) PassOn(*fd, *acceptors_.tls);
  held_back_ = !turns_.empty() && turns_.next_at(now) <= now;
}

void ConnectionListener::Close(std::map<int, Silent>::iterator silent) {
  const auto host = of_host_.find(silent->second.client.host);
  if (--host->second == 0) of_host_.erase(host);
  silent_.erase(silent);
}

void ConnectionListener::CloseOverdue(absl::Time now) {
  looked_at_ = now;
  for (const int fd : turns_.TakeOverdue(now)) waiting_.erase(fd);
  const absl::Time overdue = now - limits_.silence;
  for (auto it = silent_.begin(); it != silent_.end();) {
    const auto silent = it++;
    if (silent->second.since < overdue) Close(silent);
  }
}

// An empty `host` stands for any.
void ConnectionListener::CloseOldestOf(const std::string& host) {
  auto oldest = silent_.end();
  for (auto it = silent_.begin(); it != silent_.end(); ++it) {
    if (!host.empty() && it->second.client.host != host) continue;
    if (oldest == silent_.end() || it->second.since < oldest->second.since) oldest = it;
  }
  if (oldest != silent_.end()) Close(oldest);
}

}  // namespace dp::server
