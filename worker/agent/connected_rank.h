#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "base/id.h"
#include "base/mutex.h"

namespace dp::worker {

// The two ends of a connection between programs of this host, as its server sees them.
struct LocalConnection {
  uint16_t server_port = 0;
  uint16_t client_port = 0;
};

// The rank of `job` whose process, a descendant of this one, has opened the connection, by the
// sockets and environments that the system shows of processes; nothing where that cannot be told,
// as of a client on another host, or where two connections have these ports. Some milliseconds; as
// long as one of those processes hangs in the kernel with its memory locked. Any thread.
std::optional<int> ConnectedRank(JobId job, const LocalConnection& connection);

// Finds that out on a thread of its own, so that who asks waits for a moment at most. One asks at a
// time, on any thread. Destroying it waits for the answer that is out.
class RankLookup {
 public:
  using Find = std::function<std::optional<int>(uint16_t client_port)>;
  explicit RankLookup(Find find);
  ~RankLookup();

  // Nothing where the answer takes long, and at once while an earlier one is still out.
  std::optional<int> Ask(uint16_t client_port) DP_EXCLUDES(mu_);

 private:
  void Loop() DP_EXCLUDES(mu_);
  // Waits for a question; none at the end.
  std::optional<uint16_t> Next() DP_EXCLUDES(mu_);

  const Find find_;
  Mutex mu_;
  CondVar changed_;
  std::optional<uint16_t> asked_ DP_GUARDED_BY(mu_);  // until it is answered
  std::optional<int> answer_ DP_GUARDED_BY(mu_);      // to the latest question
  bool ended_ DP_GUARDED_BY(mu_) = false;
  std::jthread thread_;
};

}  // namespace dp::worker
