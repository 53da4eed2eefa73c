#pragma once

#include <poll.h>

#include <thread>
#include <vector>

#include "base/file_descriptor.h"
#include "worker/engine/collectives/shm/rank_ticks.h"

namespace dp::engine {

// Where a rank holds on to its peers. Each rank holds the only writing end of a pipe, its life
// line. All ranks hold reading ends, which hang up when the process of that rank ends.
struct LifeLines {
  FileDescriptor own;                  // the writing end of this rank's line
  std::vector<FileDescriptor> of_all;  // reading ends, by rank
};

// Notices at once when a peer's process ends. A thread blocks in poll on the life lines, and costs
// nothing while nobody dies. A rank that has left before is not dead. Owned by a group. The
// questions may come from any thread.
class RankWatch {
 public:
  // Interrupts `ticks`, which outlive this, when a peer dies, and rings when one ends in good
  // order.
  RankWatch(RankTicks& ticks, int rank, LifeLines lines);
  // Ends this rank's own line, which also ends the thread.
  ~RankWatch();

  // The peers whose process ended, or whose group closed, before they left. Up to date even if the
  // thread has not noticed yet.
  std::vector<int> DeadPeers() const;
  // The peers that have neither left nor died.
  std::vector<int> PeersHere() const;

 private:
  std::vector<pollfd> Polled() const;
  // By rank: whether the line has hung up.
  std::vector<bool> HungUp() const;
  void Watch();

  RankTicks& ticks_;
  const int rank_;
  LifeLines lines_;
  std::jthread thread_;
};

}  // namespace dp::engine
