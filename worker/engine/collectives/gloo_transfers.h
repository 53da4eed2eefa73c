#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "gloo/transport/unbound_buffer.h"
#include "worker/engine/collectives/gloo_mesh.h"

namespace dp::engine {

// The sends and receives of one operation. A lane is one peer and one range of memory; transfers of
// a lane in one direction end in the order they were posted. Methods that return bool answer false
// once the operation must end early: `stopped`, a peer died, or one it still needs has left.
// The destructor takes the memory back from Gloo. Used by one thread, but Interrupt from any.
class GlooTransfers {
 public:
  // `stopped` says that the operation must end; Interrupt makes a wait look.
  GlooTransfers(GlooMesh& mesh, std::function<bool()> stopped)
      : mesh_(mesh), stopped_(std::move(stopped)) {}

  // Returns the lane's number. Lanes come first, before any other thread sees this.
  int AddLane(int peer, void* data, size_t bytes);

  // `slot` pairs a send with a receive at the peer, of equal `bytes`.
  [[nodiscard]] bool Send(int lane, uint64_t slot, size_t offset, size_t bytes);
  [[nodiscard]] bool Receive(int lane, uint64_t slot, size_t offset, size_t bytes);
  // Wait for the earliest transfer of the lane that was not waited for.
  [[nodiscard]] bool WaitSent(int lane);
  [[nodiscard]] bool WaitReceived(int lane);
  // Waits for everything posted.
  [[nodiscard]] bool WaitAll();

  // Makes the wait under way, and the next ones, look whether they must end. From any thread.
  void Interrupt();

  // The peer whose connection ended while it was needed; -1 while there is none.
  int failed_peer() const { return failed_peer_; }
  // Of an operation that was interrupted: the peers that nothing came from or went to, among those
  // that something should; all of the latter if there was something with each. Takes up to 0.8 s:
  // in a large world, where many are silent, some that are named may have been on their way.
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

  // Waits once; false when the wait was interrupted or the connection has ended.
  bool CompleteReceive(Lane& lane);
  bool CompleteSend(Lane& lane);
  // The same for what has completed already.
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
