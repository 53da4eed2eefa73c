#pragma once

#include <netdb.h>

#include <memory>
#include <string>

namespace dp::worker {

// Asks a host whether any process listens at one of its ports. The name is looked up once, while it
// can be: a name server that is out of reach keeps its askers waiting for long. Not thread-safe.
class ListenerProbe {
 public:
  explicit ListenerProbe(std::string host_port);

  // Whether every address that the name has refuses a connection. False where there is no answer,
  // or an acceptance, or no such name. Blocks for at most half a second an address, once it is
  // known.
  bool NobodyListens();

 private:
  void LookUp();

  const std::string host_port_;
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> found_{nullptr, freeaddrinfo};
};

}  // namespace dp::worker
