#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "server/access/refusals.h"
#include "server/access/stranger_bytes.h"

namespace dp::server {

// The connections on which nobody has proven yet who calls. gRPC speaks HTTP/2 with whoever
// connects, so the kernel bounds what they send: little at once, and a StrangerBytes of each host
// in all. Connections of a host that owes are shut down. The same holds where nobody reads the
// answers, or proves anything for long.
//
// gRPC owns the sockets, and closes them when it likes. A second descriptor of each keeps what the
// kernel has counted until this class has seen the end. Until then gRPC's poller, too, may be woken
// for a socket that it has closed; with the pollers of 1.51 that does nothing. Thread-safe.
class StrangerConnections {
 public:
  // How much may be on its way to gRPC. A handshake with a certificate and a first call have less.
  static constexpr int kWindowBytes = 16 << 10;
  // A connection that has sent no more is not shut down: it may be that of somebody else behind the
  // same address.
  static constexpr uint64_t kSparedBytes = 16 << 10;
  // Answers to strangers are short. Whoever leaves more unread only has the coordinator keep them.
  // The kernel keeps no less before it takes no more from gRPC.
  static constexpr uint64_t kUnreadBytes = 16 << 10;
  // Nobody needs longer to prove who calls. A probe of the health that keeps its connection opens
  // another one.
  static constexpr absl::Duration kAgeMax = absl::Minutes(1);
  // How often Look is due while strangers send, and while none of them does. An event of epoll
  // would not tell reliably of the next byte: it is gone once gRPC has read that byte.
  static constexpr absl::Duration kLookEvery = absl::Milliseconds(20);
  static constexpr absl::Duration kLookAtRestEvery = absl::Milliseconds(100);

  StrangerConnections(const StrangerBytes::Limits& limits, Refusals& refusals)
      : refusals_(refusals), bytes_(limits) {}

  // `end` is the other end of the connected socket, as SocketEnd writes it. Returns false
  // without a free descriptor; the caller then closes the connection.
  [[nodiscard]] bool Add(int socket, const std::string& host, const std::string& end)
      DP_EXCLUDES(mu_);
  // A call from the address, as gRPC writes it, has proven who calls. Costs nothing while there are
  // no strangers.
  void Proven(absl::string_view peer) DP_EXCLUDES(mu_);
  // Counts what was sent, and shuts down the connections that are not to go on.
  void Look(absl::Time now) DP_EXCLUDES(mu_);
  // The other side, or gRPC, has ended the connection, if it still is one of a stranger. Counts
  // what it has sent at last.
  void Ended(int socket, absl::Time now) DP_EXCLUDES(mu_);
  // When to look again; infinite: there is none to look at.
  absl::Time next_look() const DP_EXCLUDES(mu_);
  // Whether the connection that gRPC has under this number is one of them.
  bool Has(int socket) const DP_EXCLUDES(mu_);
  // Whether the host owes. Its new connections are to wait.
  bool Owes(absl::string_view host, absl::Time now) const DP_EXCLUDES(mu_);

  // The host owes from now on, for as long as a host can.
  void HoldBack(absl::string_view host, absl::Time now) DP_EXCLUDES(mu_);

  size_t size() const { return count_.load(std::memory_order_relaxed); }

 private:
  struct Stranger {
    FileDescriptor held;  // of the same socket
    std::string host, end;
    uint64_t bytes = 0;                         // that count for the host
    absl::Time since = absl::InfiniteFuture();  // the first look
    std::string fault = {};                     // why it was shut down
  };
  using Strangers = absl::flat_hash_map<int, Stranger>;

  Stranger Forget(Strangers::iterator stranger) DP_REQUIRES(mu_);
  // Why the connection is not to go on; empty: it is. `unread`: bytes of its answers.
  std::string FaultOf(const Stranger& stranger, uint64_t unread, absl::Time now) const
      DP_REQUIRES(mu_);
  // Counts what was sent on the connection. Forgets one that has ended, and one that it shuts down
  // for a fault; returns false then. Adds to `refused` those with a fault.
  bool Count(Strangers::iterator each, absl::Time now, std::vector<Stranger>& refused)
      DP_REQUIRES(mu_);
  void Refuse(const std::vector<Stranger>& strangers);

  Refusals& refusals_;
  mutable Mutex mu_;
  Strangers strangers_ DP_GUARDED_BY(mu_);  // by the numbers that gRPC has
  absl::flat_hash_map<std::string, int> by_end_ DP_GUARDED_BY(mu_);
  StrangerBytes bytes_ DP_GUARDED_BY(mu_);
  absl::Time looked_at_ DP_GUARDED_BY(mu_) = absl::InfinitePast();
  bool at_rest_ DP_GUARDED_BY(mu_) = false;  // at the last look nobody had sent anything
  std::atomic<size_t> count_ = 0;            // of strangers_
};

}  // namespace dp::server
