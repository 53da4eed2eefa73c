#pragma once

#include <netdb.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"

namespace dp::worker {

// Asks a host whether any process listens at one of its ports. The name is looked up at the start
// and when its owner says that it may mean another host by now; never while it is probed, since a
// name server that is out of reach keeps its askers waiting for long. Thread-safe.
class ListenerProbe {
 public:
  using Addresses = std::shared_ptr<const addrinfo>;  // null: the name has none, or nobody says
  using Resolver = std::function<Addresses(const std::string& host_port)>;
  // The system's. Blocks.
  static Addresses Resolve(const std::string& host_port);

  // `resolver` is called here, and later on a thread of its own.
  explicit ListenerProbe(std::string host_port, Resolver resolver = Resolve);
  // Waits for a look-up under way.
  ~ListenerProbe();

  // Whether every address that the name has refuses a connection. False where there is no answer,
  // or an acceptance, or no such name. Blocks for at most half a second an address.
  bool NobodyListens() DP_EXCLUDES(mu_);
  // Looks the name up again and returns at once. Where it has no answer the addresses stay.
  void LookUpAgain() DP_EXCLUDES(mu_);

 private:
  void Loop() DP_EXCLUDES(mu_);
  // Waits for the next look-up; false at the end.
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
