#pragma once

#include <netdb.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"

namespace dp::worker {

// Asks a host whether any process listens on one of its ports. Resolves the name at the start and
// after LookUpAgain, never during a probe: an unreachable name server blocks its callers for long.
// Thread-safe.
class ListenerProbe {
 public:
  using Addresses = std::shared_ptr<const addrinfo>;  // null: the name has none, or no answer
  using Resolver = std::function<Addresses(const std::string& host_port)>;
  // The system's resolver. Blocks.
  static Addresses Resolve(const std::string& host_port);

  // Calls `resolver` here, and later on its own thread.
  explicit ListenerProbe(std::string host_port, Resolver resolver = Resolve);
  // Waits for a look-up in flight.
  ~ListenerProbe();

  // Whether every address of the name refuses a connection. False if one accepts or does not
  // answer, or if the name has no address. Blocks for at most half a second per address.
  bool NobodyListens() DP_EXCLUDES(mu_);
  // Resolves the name again; returns at once. The old addresses stay if there is no answer.
  void LookUpAgain() DP_EXCLUDES(mu_);

 private:
  void Loop() DP_EXCLUDES(mu_);
  // Waits for the next order to look up; false at the end.
  bool AwaitWanted() DP_EXCLUDES(mu_);
  Addresses found() const DP_EXCLUDES(mu_);

  const std::string host_port_;
  const Resolver resolver_;
  mutable Mutex mu_;
  CondVar changed_;
  Addresses found_ DP_GUARDED_BY(mu_);
  bool wanted_ DP_GUARDED_BY(mu_) = false;
  bool ended_ DP_GUARDED_BY(mu_) = false;
  std::jthread thread_;
};

}  // namespace dp::worker
