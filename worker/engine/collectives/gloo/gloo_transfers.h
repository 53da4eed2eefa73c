#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "gloo/transport/unbound_buffer.h"
#include "worker/engine/collectives/gloo/gloo_mesh.h"

namespace dp::engine {

// The sends and receives of one operation. A lane is one peer and one range of memory; transfers of
// a lane in one direction end in the order they were posted. Methods that return bool answer false
// once the operation must end early: `stopped` says so, a peer died, or a needed peer has left. The
// destructor takes the memory back from Gloo. Used by one thread, except Interrupt.
class GlooTransfers {
 public:
  // `stopped` answers whether the operation must end; Interrupt makes a wait check it.
  GlooTransfers(GlooMesh& mesh, std::function<bool()> stopped)
      : mesh_(mesh), stopped_(std::move(stopped)) {}

  // Returns the lane's number. Add all lanes before any other thread sees this object.
  int AddLane(int peer, void* data, size_t bytes);

  // `slot` pairs a send with the peer's receive of equal `bytes`.
  [[nodiscard]] bool Send(int lane, uint64_t slot, size_t offset, size_t bytes);
  [[nodiscard]] bool Receive(int lane, uint64_t slot, size_t offset, size_t bytes);
  // Wait for the lane's earliest transfer that was not yet waited for.
  [[nodiscard]] bool WaitSent(int lane);
  [[nodiscard]] bool WaitReceived(int lane);
  // Waits for everything posted.
  [[nodiscard]] bool WaitAll();

  // Makes the current wait and the next ones check whether they must end. From any thread.
  void Interrupt();

  // The peer whose connection ended while it was needed; -1 if none.
  int failed_peer() const { return failed_peer_; }
  // The peers to blame after an interruption: those that have incomplete transfers and no completed
  // one, else all that have incomplete transfers. Takes up to 0.8 s. If many peers of a large world
  // are silent, the answer may include peers that made progress.
  std::vector<int> Laggards();

 private:
  struct Lane {
    int peer = 0;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
    int sends = 0;     // posted and not completed
    int receives = 0;  // posted and not completed
    int done = 0;      // completed
    int sent = 0;      // completed ahead of WaitSent
    int received = 0;  // completed ahead of WaitReceived
  };

  // Waits once. Returns false when interrupted or when the connection has ended.
  bool CompleteReceive(Lane& lane);
  bool CompleteSend(Lane& lane);
  // As above, but waits only for what has already completed.
  bool GlanceAtReceive(Lane& lane);
  bool GlanceAtSend(Lane& lane);
  // After an interrupted wait: whether to wait again.
  bool MayGoOn();
  bool Drain(Lane& lane);
  bool Try(const Lane& lane, const std::function<bool()>& call);

  GlooMesh& mesh_;
  const std::function<bool()> stopped_;
  int failed_peer_ = -1;
  std::vector<Lane> lanes_;
};

}  // namespace dp::engine
