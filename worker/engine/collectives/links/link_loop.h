#pragma once

#include <poll.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "worker/engine/collectives/links/in_link.h"
#include "worker/engine/collectives/links/message_book.h"
#include "worker/engine/collectives/links/message_carrier.h"
#include "worker/engine/collectives/links/out_link.h"
#include "worker/engine/collectives/links/peer_links.h"
#include "worker/engine/collectives/links/pending_message.h"

namespace dp::engine {

// The thread behind the links of a rank: moves frames and payloads between sockets, the book of
// messages and the group. It sleeps in poll, also until the next deadline. The methods above Run
// are for any thread; they leave their wishes in an inbox. The rest is the thread's.
class LinkLoop final : private LinkListener {
 public:
  LinkLoop(LinkMembership membership, PeerLinks::Options options);

  // Errors: ResourceExhausted thousands are in flight.
  absl::Status Push(std::shared_ptr<PendingMessage> message) DP_EXCLUDES(mu_);
  void Tell(int peer, LinkFrame::Kind kind, std::string text) DP_EXCLUDES(mu_);
  void Abort(const absl::Status& why) DP_EXCLUDES(mu_);
  // PeerLinks::Break.
  void FailAll(const absl::Status& why) DP_EXCLUDES(mu_);
  void CatchUp() DP_EXCLUDES(mu_);
  bool HasCaughtUp() DP_EXCLUDES(mu_);
  // PeerLinks::Leave, once the thread runs.
  bool Leave() DP_EXCLUDES(mu_);
  void Close() DP_EXCLUDES(mu_);

  // Ends after Close.
  void Run() DP_EXCLUDES(mu_);

 private:
  struct Text {
    int peer = 0;
    LinkFrame frame;
    std::string text;
  };
  struct Inbox {
    std::vector<std::shared_ptr<PendingMessage>> messages;
    std::vector<Text> texts;
    std::optional<absl::Status> aborted;
    std::optional<absl::Status> broken;
    bool leaving = false;
    bool closing = false;
  };

  // LinkListener.
  absl::Status Greeted(int rank) override;
  absl::StatusOr<absl::Span<uint8_t>> RoomFor(int peer, const LinkFrame& frame) override;
  absl::Status Heard(int peer, const LinkFrame& frame, const std::string& text) override;

  void Wake();
  Inbox TakeInbox() DP_EXCLUDES(mu_);
  // Returns false once the loop must end.
  bool DoWishes() DP_EXCLUDES(mu_);
  void Begin(const std::shared_ptr<PendingMessage>& message);
  OutLink& LinkTo(int peer);
  void Apply(const MessageBook::Effects& fx);
  void Apply(MessageCarrier::Effects fx);
  // Lets the carrier go on, and leave.
  void Carry() DP_EXCLUDES(mu_);
  bool MayLeave() const DP_EXCLUDES(mu_);
  void EndMessage(MessageBook::Id id, const absl::Status& status) DP_EXCLUDES(mu_);
  // The first failure ends everything in flight.
  void Break(const absl::Status& why);
  void SayWhatIsQueued();
  absl::Status Refusal(const std::string& name) const;
  // Breaks if a message is late, or its peer gone.
  void CheckDeadlines();
  void CheckPeers();

  absl::Duration UntilNextDeadline() const;
  void Poll() DP_EXCLUDES(mu_);
  void Accept();
  void ReadAll();
  void WriteAll(const std::vector<pollfd>& polled);
  // Reports once all text has left.
  void CheckTold();
  // Sends the texts that are left.
  void Linger();

  const LinkMembership membership_;
  const PeerLinks::Options options_;

  MessageBook book_;
  MessageBook::Id last_id_ = 0;
  std::map<MessageBook::Id, std::shared_ptr<PendingMessage>> pending_;
  // Those that the carrier has, and since when the peer has been gone.
  std::map<MessageBook::Id, absl::Time> carried_;
  absl::Duration carrier_sleeps_ = absl::InfiniteDuration();
  std::vector<OutLink> out_;  // by rank
  std::vector<InLink> in_;
  bool telling_ = false;  // text is on its way
  absl::Status failure_;
  std::optional<absl::Status> aborted_;

  mutable Mutex mu_;
  CondVar caught_up_changed_;
  Inbox inbox_ DP_GUARDED_BY(mu_);
  size_t in_flight_ DP_GUARDED_BY(mu_) = 0;
  int64_t turns_ DP_GUARDED_BY(mu_) = 0;  // times that everything that had arrived was heard
  // The turn at which HasCaughtUp answers yes.
  std::optional<int64_t> enough_turns_ DP_GUARDED_BY(mu_);
  bool left_ DP_GUARDED_BY(mu_) = false;
  bool ended_ DP_GUARDED_BY(mu_) = false;
};

}  // namespace dp::engine
