#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "base/file_descriptor.h"
#include "worker/engine/collectives/links/link_frame.h"
#include "worker/engine/collectives/links/link_place.h"

namespace dp::engine {

// The connection on which this rank speaks to one peer, and what still has to leave. The peer never
// writes to it. It opens when there is something to say. Used by one thread.
class OutLink {
 public:
  // Begins to connect, and greets as `rank`. A link that has ended stays ended.
  void Open(const LinkPlace& place, int rank);
  bool open() const { return socket_.valid(); }
  bool ended() const { return ended_; }
  int socket() const { return socket_.get(); }
  bool has_more() const { return !pieces_.empty(); }

  // `payload` lives until `message` is among the written, or Drop.
  void Queue(const LinkFrame& frame, absl::Span<const uint8_t> payload, uint64_t message);
  void QueueText(LinkFrame frame, std::string text);
  // Writes what the kernel takes. `written` gets the messages whose payload has left.
  void Write(std::vector<uint64_t>* written);
  // Forgets payloads that others own. Ends the link if one has left in part.
  void Drop();
  // The peer is gone.
  void End();

 private:
  struct Piece {
    std::string own;                    // the frame, maybe with text behind it
    absl::Span<const uint8_t> payload;  // follows
    uint64_t message = 0;
    size_t left = 0;  // bytes written
  };

  FileDescriptor socket_;
  bool ended_ = false;
  std::deque<Piece> pieces_;
};

}  // namespace dp::engine
