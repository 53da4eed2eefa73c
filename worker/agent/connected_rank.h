#pragma once

#include <cstdint>
#include <optional>

#include "base/id.h"

namespace dp::worker {

// The two ends of a connection between programs of this host, as its server sees them.
struct LocalConnection {
  uint16_t server_port = 0;
  uint16_t client_port = 0;
};

// The rank of `job` whose process has opened the connection, by the sockets and environments that
// the system shows of its processes; nothing where that cannot be told, as of a client on another
// host or of another user. Reads all of /proc: some milliseconds. Any thread.
std::optional<int> ConnectedRank(JobId job, const LocalConnection& connection);

}  // namespace dp::worker
