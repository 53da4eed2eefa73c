#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "gloo/transport/context.h"
#include "gloo/transport/device.h"
#include "gloo/transport/unbound_buffer.h"
#include "store/store.h"
#include "worker/engine/collectives/gloo/gloo_calls.h"
#include "worker/engine/collectives/gloo/gloo_group.h"
#include "worker/engine/collectives/links/link_place.h"

namespace dp::engine {

// The connections of one rank to every other rank, and a watch over them. Gloo reports a broken
// connection only to operations pending on it, while our operation may be waiting for another peer.
// A thread therefore keeps a receive pending on every connection. The receive is never answered, so
// the thread learns of any peer's end at once. A rank that leaves in good order first sends one
// goodbye byte; an end without goodbye is a death. Gloo resets the connections it closes, which
// discards what the peer has not read yet. A leaving rank therefore closes when every peer has said
// goodbye.
//
// Owned by a group. Connect and transfers run on the group's queue thread; the rest on any thread.
class GlooMesh {
 public:
  // The mesh calls `on_end` whenever EndedPeers() has grown.
  GlooMesh(int rank, int size, std::function<void()> on_end);
  // Says goodbye unless that was done, and closes. Never blocks on a peer.
  ~GlooMesh();

  // Blocks until every pair is connected. Fails once `stopped` answers true, which Interrupt makes
  // it check; `missing` then gets the ranks it waited for. `interfaces` is the list that has the
  // interface of the options; every rank has one as long. Errors: as ConnectGloo, without deadline.
  absl::Status Connect(Store& store, const GlooOptions& options, const std::string& interfaces,
                       const std::function<bool()>& stopped, std::vector<int>* missing);
  // After Connect: the means of links between the ranks. Call it once.
  absl::StatusOr<LinkMembership> TakeLinks();
  // Wakes a Connect under way. The mesh is unusable afterwards.
  void Interrupt() DP_EXCLUDES(mu_);

  // Peers whose connection has ended: no more transfers complete there.
  std::vector<int> EndedPeers() const DP_EXCLUDES(mu_);
  // Peers whose connection ended without goodbye.
  std::vector<int> DeadPeers() DP_EXCLUDES(mu_);
  // Says goodbye, then blocks until every peer has said goodbye or its connection has ended.
  // Returns false once `stopped` answers true; InterruptLeave, from any thread, makes it check.
  [[nodiscard]] bool Leave(const std::function<bool()>& stopped);
  void InterruptLeave() DP_EXCLUDES(mu_);
  // Throws what Gloo throws.
  std::unique_ptr<gloo::transport::UnboundBuffer> Buffer(void* data, size_t bytes);

  int rank() const { return rank_; }
  int size() const { return size_; }
  // In which call of Gloo the group's queue thread is.
  GlooCalls& calls() { return calls_; }

 private:
  using Buffers = std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>>;

  absl::Status Open(const GlooOptions& options, const std::function<bool()>& stopped)
      DP_EXCLUDES(mu_);
  // Listens for links at the address of this rank's pairs.
  absl::Status ListenToPeers();
  std::string Addresses() const;
  // The text that this rank puts into the store: its place for links, a line end, its addresses.
  std::string Card() const;
  // The addresses in the cards. Keeps the places.
  absl::StatusOr<std::vector<std::string>> ReadCards(const std::vector<std::string>& cards);
  absl::Status ConnectPairs(const std::vector<std::string>& addresses,
                            const std::function<bool()>& stopped, std::vector<int>* missing);
  void StartWatch();
  void Watch() DP_EXCLUDES(mu_);
  // Blocks until a connection ends (true) or the mesh closes (false).
  bool AwaitEnd(uint64_t generation) DP_EXCLUDES(mu_);
  bool MarkEnded(int rank) DP_EXCLUDES(mu_);
  void SayGoodbye();
  // The buffer lives as long as the mesh.
  gloo::transport::UnboundBuffer& GoodbyeOf(int rank) const DP_EXCLUDES(mu_);
  bool AwaitGoodbye(int rank, const std::function<bool()>& stopped);

  const int rank_;
  const int size_;
  const std::function<void()> on_end_;
  GlooCalls calls_;

  // Set by Connect before other threads use them.
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::transport::Context> context_;
  FileDescriptor link_listener_;
  LinkPlace link_place_;
  std::vector<LinkPlace> link_places_;  // by rank
  std::vector<uint8_t> goodbyes_;       // by rank; room for one byte each
  // Used by the queue's thread until that thread has ended, then by the watch.
  Buffers said_goodbyes_;

  mutable Mutex mu_;
  bool opened_ DP_GUARDED_BY(mu_) = false;  // pairs exist
  bool interrupted_ DP_GUARDED_BY(mu_) = false;
  bool closing_ DP_GUARDED_BY(mu_) = false;
  std::vector<bool> ended_ DP_GUARDED_BY(mu_);                          // by rank
  Buffers goodbye_buffers_ DP_GUARDED_BY(mu_);                          // by rank; null for ours
  gloo::transport::UnboundBuffer* alarm_ DP_GUARDED_BY(mu_) = nullptr;  // what the watch waits on
  std::jthread watch_;
};

// Longer than any run. Gloo closes all connections when one of its own timeouts passes, so
// OperationQueue keeps the deadlines instead.
inline constexpr std::chrono::hours kForever{24 * 365};

}  // namespace dp::engine
