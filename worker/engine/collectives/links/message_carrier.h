#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/engine/collectives/links/message_book.h"
#include "worker/engine/collectives/links/pending_message.h"

namespace dp::engine {

// Moves the bytes of messages that have met, in place of the links: for memory that sockets cannot
// read. All messages of such links are of a class that their carrier knows. The links' thread alone
// calls it. No call blocks on a peer.
class MessageCarrier {
 public:
  using Id = MessageBook::Id;
  using Handle = std::shared_ptr<PendingMessage>;
  struct Text {
    int peer = 0;
    std::string text;
  };
  struct Effects {
    std::vector<Text> texts;                // for the carriers of peers
    std::vector<MessageBook::Ended> ended;  // the first error ends all messages
  };

  virtual ~MessageCarrier() = default;

  // This rank has called the message.
  virtual void Called(const Handle& message) = 0;
  // Both ranks have called it.
  virtual void Met(Id id, const Handle& message, Effects* fx) = 0;
  // A text of the peer's carrier. Texts and meetings of one link come in order. Errors: Internal no
  // rank in its right mind sends it.
  virtual absl::Status Heard(int peer, const std::string& text, Effects* fx) = 0;
  // Does what can be done now. Returns how long to wait before the next call.
  virtual absl::Duration Step(Effects* fx) = 0;
  // Called repeatedly, while no message is in flight: disconnects from the peers in good order.
  // Returns whether that is done.
  virtual bool Leave() = 0;
  // Ends everything at once. Afterwards nobody touches the memory of a message. Idempotent; no
  // other call follows.
  virtual void Stop() = 0;
};

}  // namespace dp::engine
