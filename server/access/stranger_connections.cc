#include "server/access/stranger_connections.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/file_descriptor.h"

namespace dp::server {
namespace {

// No bound of its own: from here on the kernel finds the window that suits the network.
constexpr int kWindowOfTheKernel = 1 << 30;
// Counts for a connection that gRPC closed before its last bytes were counted.
constexpr uint64_t kUnseenBytes = StrangerConnections::kWindowBytes;
// As in the kernel's list of TCP states.
constexpr unsigned kTcpClose = 7;

// 0: the number is that of no socket any more.
uint64_t CookieOf(int socket) {
  uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  return getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

struct Received {
  uint64_t bytes = 0;
  bool ended = false;
};

// nullopt: gRPC has closed it.
std::optional<Received> ReceivedOn(int socket, uint64_t cookie) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  const bool read = getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
  if (!read || CookieOf(socket) != cookie) return std::nullopt;
  return Received{info.tcpi_bytes_received, info.tcpi_state == kTcpClose};
}

// Another descriptor of the socket, which nobody closes meanwhile; invalid: it has ended. Looks
// before, too: closing a copy of what is a file by now would drop this process's locks on it, and
// the journal has some.
FileDescriptor Hold(int socket, uint64_t cookie) {
  if (CookieOf(socket) != cookie) return FileDescriptor();
  FileDescriptor held(fcntl(socket, F_DUPFD_CLOEXEC, 0));
  return held.valid() && CookieOf(held.get()) == cookie ? std::move(held) : FileDescriptor();
}

void SetWindow(int socket, int bytes) {
  (void)setsockopt(socket, IPPROTO_TCP, TCP_WINDOW_CLAMP, &bytes, sizeof(bytes));
}

// As SocketEnd writes it. gRPC writes "ipv4:10.0.0.2:40312" and "ipv6:%5Bfe80::1%252%5D:40312",
// where 2 is the number of a link.
std::string EndOf(absl::string_view peer) {
  if (!absl::ConsumePrefix(&peer, "ipv4:")) (void)absl::ConsumePrefix(&peer, "ipv6:");
  std::string end = absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}});
  const size_t link = end.find("%25"), port = end.find("]:");
  if (link != std::string::npos && port != std::string::npos) end.erase(link, port - link);
  return end;
}

}  // namespace

void StrangerConnections::Add(int socket, const std::string& host, const std::string& end) {
  SetWindow(socket, kWindowBytes);
  const uint64_t cookie = CookieOf(socket);
  MutexLock lock(mu_);
  if (const auto earlier = strangers_.find(socket); earlier != strangers_.end()) {
    bytes_.Add(earlier->second.host, kUnseenBytes, looked_at_);
    Forget(earlier);
  }
  strangers_.emplace(socket, Stranger{cookie, host, end});
  by_end_[end] = socket;
  count_.store(strangers_.size(), std::memory_order_relaxed);
  at_rest_ = false;
}

void StrangerConnections::Proven(absl::string_view peer) {
  if (size() == 0) return;
  const std::string end = EndOf(peer);
  MutexLock lock(mu_);
  const auto known = by_end_.find(end);
  if (known == by_end_.end()) return;
  const int socket = known->second;
  const Stranger stranger = Forget(strangers_.find(socket));
  bytes_.GiveBack(stranger.host, stranger.bytes, looked_at_);
  const FileDescriptor held = Hold(socket, stranger.cookie);
  if (held.valid()) SetWindow(held.get(), kWindowOfTheKernel);
}

void StrangerConnections::Look(absl::Time now) {
  std::vector<Stranger> shut_down;
  {
    MutexLock lock(mu_);
    looked_at_ = now;
    at_rest_ = true;
    for (auto it = strangers_.begin(); it != strangers_.end();) {
      const auto each = it++;
      auto& [socket, stranger] = *each;
      if (!Count(socket, stranger, now)) {
        Forget(each);
        continue;
      }
      if (stranger.bytes <= kSparedBytes || bytes_.owes_until(stranger.host) <= now) continue;
      const FileDescriptor held = Hold(socket, stranger.cookie);
      if (held.valid()) (void)shutdown(held.get(), SHUT_RDWR);
      shut_down.push_back(Forget(each));
    }
  }
  for (const Stranger& stranger : shut_down) Refuse(stranger);
}

std::vector<int> StrangerConnections::TakeResting() {
  MutexLock lock(mu_);
  std::vector<int> sockets;
  if (!at_rest_) rest_taken_ = false;
  if (!at_rest_ || std::exchange(rest_taken_, true)) return sockets;
  for (const auto& [socket, stranger] : strangers_) sockets.push_back(socket);
  return sockets;
}

void StrangerConnections::Wake() {
  MutexLock lock(mu_);
  at_rest_ = rest_taken_ = false;
}

void StrangerConnections::Ended(int socket, absl::Time now) {
  if (size() == 0) return;
  MutexLock lock(mu_);
  const auto known = strangers_.find(socket);
  if (known == strangers_.end()) return;
  (void)Count(socket, known->second, now);
  Forget(known);
}

StrangerConnections::Stranger StrangerConnections::Forget(Strangers::iterator stranger) {
  Stranger forgotten = std::move(stranger->second);
  const auto end = by_end_.find(forgotten.end);
  if (end != by_end_.end() && end->second == stranger->first) by_end_.erase(end);
  strangers_.erase(stranger);
  count_.store(strangers_.size(), std::memory_order_relaxed);
  return forgotten;
}

bool StrangerConnections::Count(int socket, Stranger& stranger, absl::Time now) {
  const std::optional<Received> received = ReceivedOn(socket, stranger.cookie);
  if (!received.has_value()) {
    bytes_.Add(stranger.host, kUnseenBytes, now);
    return false;
  }
  if (received->bytes == stranger.bytes) return !received->ended;
  at_rest_ = false;
  bytes_.Add(stranger.host, received->bytes - stranger.bytes, now);
  stranger.bytes = received->bytes;
  return !received->ended;
}

absl::Time StrangerConnections::next_look() const {
  MutexLock lock(mu_);
  if (strangers_.empty()) return absl::InfiniteFuture();
  return looked_at_ + (at_rest_ ? kLookAtRestEvery : kLookEvery);
}

bool StrangerConnections::Owes(absl::string_view host, absl::Time now) const {
  MutexLock lock(mu_);
  return bytes_.owes_until(host) > now;
}

void StrangerConnections::Refuse(const Stranger& stranger) {
  refusals_.AddConnection(
      stranger.end,
      absl::ResourceExhaustedError(
          absl::StrCat(stranger.host,
                       " sends too much without proving who calls; its connections are shut down")),
      absl::Now());
}

}  // namespace dp::server
