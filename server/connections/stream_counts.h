#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"

namespace dp::server {

// The counts of gRPC for one connection that it serves, since it was accepted.
struct StreamCounts {
  std::string end = {};   // the other end, as SocketEnd writes it
  uint64_t begun = 0;     // calls
  uint64_t messages = 0;  // of calls, as far as they were read
};

// Visits each connection of each gRPC server of the process, the newest first. By gRPC's statistics
// (channelz). A thousand connections over TLS take 35 ms.
void CountStreams(absl::FunctionRef<void(const StreamCounts&)> visit);

}  // namespace dp::server
