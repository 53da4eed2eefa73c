#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/links/link_frame.h"
#include "worker/engine/collectives/links/link_place.h"
#include "worker/engine/collectives/message.h"

namespace dp::engine {

class LinkLoop;
class MessageCarrier;
class PendingMessage;

// The links between one rank of a group and its peers: what two ranks say to each other beside the
// collectives. A link opens, and the thread behind all of them starts, at the first message or
// note. A group that has neither pays for one socket that listens. Owned by a group.
//
// Messages run beside each other and beside the collectives, in no order to them. They meet as
// MessageBook says. The first that fails ends all of this rank, and all later ones fail with its
// error.
class PeerLinks {
 public:
  struct Options {
    absl::Duration timeout = {};  // of a message, from its call to its end
    // Called on the links' thread with each note and verdict of a peer.
    std::function<void(int peer, LinkFrame::Kind kind, const std::string& text)> on_text;
    // Called on the links' thread when all text that was told has left, or its link has ended.
    std::function<void()> on_told;
    // Called on the links' thread with the error of the first message that failed.
    std::function<void(const absl::Status& why)> on_failure;
    // Moves the bytes of messages; null: the links do. It outlives the links.
    MessageCarrier* carrier = nullptr;
  };

  // Without a listener, because the system gave none, messages fail with `why_none`.
  PeerLinks(absl::StatusOr<LinkMembership> membership, Options options);
  // Ends all messages. Text that was told still leaves, if that takes no longer than a second.
  ~PeerLinks();

  // Sends or receives a message. Errors: InvalidArgument states how the two ranks differ.
  // Unavailable names a peer that is gone, DeadlineExceeded one that did not arrive. Aborted.
  // ResourceExhausted thousands are in flight.
  std::unique_ptr<Work> Pass(const Message& message);
  // The same for a message of the carrier's kind. Errors, before it is in flight: ResourceExhausted
  // thousands are; Unavailable there are no links.
  absl::Status Begin(std::shared_ptr<PendingMessage> message);
  // Makes the carrier leave once no message is in flight. Never blocks; returns whether it has
  // left. From any thread. Messages that are called later may fail.
  bool Leave() DP_EXCLUDES(mu_);
  // Sends a note or a verdict. From any thread; never blocks.
  void Tell(int peer, LinkFrame::Kind kind, std::string text);
  // Starts to hear what peers tell. From any thread.
  void Hear();
  // Blocks until everything is heard that peers told before, for a second at most.
  void CatchUp();
  // Called repeatedly, by one thread: whether that has been heard which peers told before the first
  // call. Never blocks.
  bool HasCaughtUp();
  // Ends all messages, now and later, with Aborted. From any thread. Idempotent.
  void Abort(const absl::Status& why);
  // The same with the error `why`, unless a message has failed before.
  void Break(const absl::Status& why);

 private:
  // Starts the thread unless it runs.
  void Start() DP_EXCLUDES(mu_);

  const absl::Status why_none_;
  const absl::Duration timeout_;
  const std::unique_ptr<LinkLoop> loop_;  // null where there are no links
  Mutex mu_;
  std::jthread thread_ DP_GUARDED_BY(mu_);
  bool closing_ DP_GUARDED_BY(mu_) = false;
};

}  // namespace dp::engine
