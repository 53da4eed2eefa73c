#include "server/access/stranger_connections.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/program/descriptor_limit.h"
#include "base/socket_end.h"
#include "server/access/socket_traffic.h"

namespace dp::server {
namespace {

// No bound of its own: from here on the kernel finds the window that suits the network.
constexpr int kWindowOfTheKernel = 1 << 30;
void SetWindow(int socket, int bytes) {
  (void)setsockopt(socket, IPPROTO_TCP, TCP_WINDOW_CLAMP, &bytes, sizeof(bytes));
}

}  // namespace

bool StrangerConnections::Add(int socket, const std::string& host, const std::string& end) {
  FileDescriptor held(fcntl(socket, F_DUPFD_CLOEXEC, 0));
  if (!held.valid() || IsReservedDescriptor(held.get())) return false;
  SetWindow(socket, kWindowBytes);
  MutexLock lock(mu_);
  DP_CHECK(strangers_.try_emplace(socket, Stranger{std::move(held), host, end}).second);
  by_end_[end] = socket;
  count_.store(strangers_.size(), std::memory_order_relaxed);
  at_rest_ = false;
  return true;
}

void StrangerConnections::Proven(absl::string_view peer) {
  if (size() == 0) return;
  const std::string end = SocketEndOfPeer(peer);
  MutexLock lock(mu_);
  const auto known = by_end_.find(end);
  if (known == by_end_.end()) return;
  const Stranger stranger = Forget(strangers_.find(known->second));
  bytes_.GiveBack(stranger.host, stranger.bytes, looked_at_);
  SetWindow(stranger.held.get(), kWindowOfTheKernel);
}

void StrangerConnections::Look(absl::Time now) {
  std::vector<Stranger> refused;
  {
    MutexLock lock(mu_);
    looked_at_ = now;
    at_rest_ = true;
    for (auto it = strangers_.begin(); it != strangers_.end();) Count(it++, now, refused);
  }
  Refuse(refused);
}

void StrangerConnections::Ended(int socket, absl::Time now) {
  if (size() == 0) return;
  std::vector<Stranger> refused;
  {
    MutexLock lock(mu_);
    const auto known = strangers_.find(socket);
    if (known == strangers_.end()) return;
    if (Count(known, now, refused)) Forget(known);
  }
  Refuse(refused);
}

StrangerConnections::Stranger StrangerConnections::Forget(Strangers::iterator stranger) {
  Stranger forgotten = std::move(stranger->second);
  const auto end = by_end_.find(forgotten.end);
  if (end != by_end_.end() && end->second == stranger->first) by_end_.erase(end);
  strangers_.erase(stranger);
  count_.store(strangers_.size(), std::memory_order_relaxed);
  return forgotten;
}

bool StrangerConnections::Count(Strangers::iterator each, absl::Time now,
                                std::vector<Stranger>& refused) {
  Stranger& stranger = each->second;
  const SocketTraffic traffic = TrafficOn(stranger.held.get());
  if (traffic.received > stranger.bytes) {
    at_rest_ = false;
    bytes_.Add(stranger.host, traffic.received - stranger.bytes, now);
    stranger.bytes = traffic.received;
  }
  stranger.since = std::min(stranger.since, now);
  stranger.fault = FaultOf(stranger, traffic.unread, now);
  if (stranger.fault.empty() && !traffic.ended) return true;
  if (!traffic.ended) ResetConnection(stranger.held.get());
  Stranger forgotten = Forget(each);
  if (!forgotten.fault.empty()) refused.push_back(std::move(forgotten));
  return false;
}

std::string StrangerConnections::FaultOf(const Stranger& stranger, uint64_t unread,
                                         absl::Time now) const {
  if (stranger.bytes > kSparedBytes && bytes_.owes_until(stranger.host) > now) {
    return "sends too much without proving who calls; its connections are not served";
  }
  if (unread > kUnreadBytes) {
    return "does not read its answers, and has not proven who calls";
  }
  if (now - stranger.since >= kAgeMax) {
    return absl::StrCat("has not proven who calls within ", absl::FormatDuration(kAgeMax));
  }
  return "";
}

absl::Time StrangerConnections::next_look() const {
  MutexLock lock(mu_);
  if (strangers_.empty()) return absl::InfiniteFuture();
  return looked_at_ + (at_rest_ ? kLookAtRestEvery : kLookEvery);
}

void StrangerConnections::HoldBack(absl::string_view host, absl::Time now) {
  MutexLock lock(mu_);
  bytes_.HoldBack(host, now);
}

bool StrangerConnections::Has(int socket) const {
  MutexLock lock(mu_);
  return strangers_.contains(socket);
}

bool StrangerConnections::Owes(absl::string_view host, absl::Time now) const {
  MutexLock lock(mu_);
  return bytes_.owes_until(host) > now;
}

void StrangerConnections::Refuse(const std::vector<Stranger>& strangers) {
  for (const Stranger& stranger : strangers) {
    refusals_.AddConnection(
        ToString(Caller()), stranger.end,
        absl::ResourceExhaustedError(absl::StrCat(stranger.host, " ", stranger.fault)),
        absl::Now());
  }
}

}  // namespace dp::server
