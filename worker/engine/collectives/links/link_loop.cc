#include "worker/engine/collectives/links/link_loop.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status.h"
#include "worker/engine/collectives/failure.h"

namespace dp::engine {
namespace {

// A caller that never waits meets this limit instead of using up memory.
constexpr size_t kMessagesMax = 4096;
// Callers that have not proved who they are. Strangers cannot take more sockets.
constexpr size_t kStrangersMax = 64;
// How long texts may take to leave after the group's end, and CatchUp.
constexpr absl::Duration kTextsLeave = absl::Seconds(1);
// A carrier that leaves waits for its peers, and nobody wakes it.
constexpr absl::Duration kLeavePoll = absl::Milliseconds(1);
// How long a message whose peer is gone may still be on its way: the peer may have done its part.
constexpr absl::Duration kPartDone = absl::Seconds(1);
// The peer never writes to an outgoing link, so all that can be read is its end.
constexpr short kPeerGone = POLLRDHUP;
constexpr short kWritable = POLLOUT | POLLRDHUP;
constexpr short kEnded = POLLRDHUP | POLLHUP | POLLERR;
// The longest sleep.
constexpr absl::Duration kSleepMax = absl::Hours(1);

}  // namespace

LinkLoop::LinkLoop(LinkMembership membership, PeerLinks::Options options)
    : membership_(std::move(membership)),
      options_(std::move(options)),
      book_(membership_.rank, options_.carrier != nullptr),
      out_(membership_.places.size()) {}

void LinkLoop::Wake() {
  const uint64_t one = 1;
  (void)!write(membership_.wake.get(), &one, sizeof one);  // full: it is awake
}

absl::Status LinkLoop::Push(std::shared_ptr<PendingMessage> message) {
  {
    MutexLock lock(mu_);
    if (in_flight_ >= kMessagesMax)
      return absl::ResourceExhaustedError(
          absl::StrCat(message->name(), ": ", kMessagesMax, " messages are already in flight"));
    ++in_flight_;
    inbox_.messages.push_back(std::move(message));
  }
  Wake();
  return absl::OkStatus();
}

void LinkLoop::Tell(int peer, LinkFrame::Kind kind, std::string text) {
  {
    MutexLock lock(mu_);
    inbox_.texts.push_back({peer, {.kind = kind}, std::move(text)});
  }
  Wake();
}

void LinkLoop::Abort(const absl::Status& why) {
  {
    MutexLock lock(mu_);
    if (!inbox_.aborted) inbox_.aborted = why;
  }
  Wake();
}

void LinkLoop::FailAll(const absl::Status& why) {
  {
    MutexLock lock(mu_);
    if (!inbox_.broken) inbox_.broken = why;
  }
  Wake();
}

void LinkLoop::CatchUp() {
  MutexLock lock(mu_);
  // The running turn may have passed a link that has more by now.
  const int64_t enough = turns_ + 2;
  Wake();
  (void)caught_up_changed_.WaitFor(mu_, kTextsLeave, [&] {
    if (turns_ < enough) Wake();
    return turns_ >= enough || ended_;
  });
}

bool LinkLoop::HasCaughtUp() {
  bool caught_up = false;
  {
    MutexLock lock(mu_);
    if (!enough_turns_) enough_turns_ = turns_ + 2;  // as CatchUp
    caught_up = turns_ >= *enough_turns_ || ended_;
  }
  if (!caught_up) Wake();
  return caught_up;
}

bool LinkLoop::Leave() {
  bool wakes = false, left = false;
  {
    MutexLock lock(mu_);
    wakes = !std::exchange(inbox_.leaving, true);
    left = left_;
  }
  if (wakes) Wake();
  return left;
}

void LinkLoop::Close() {
  {
    MutexLock lock(mu_);
    inbox_.closing = true;
  }
  Wake();
}

void LinkLoop::Run() {
  pthread_setname_np(pthread_self(), "links");
  while (DoWishes()) {
    Carry();
    CheckDeadlines();
    CheckPeers();
    Poll();
  }
  aborted_ = absl::AbortedError("its group was closed");
  Break(*aborted_);
  Linger();
  MutexLock lock(mu_);
  ended_ = true;
  caught_up_changed_.NotifyAll();
}

LinkLoop::Inbox LinkLoop::TakeInbox() {
  MutexLock lock(mu_);
  Inbox taken = std::exchange(inbox_, {});
  inbox_.closing = taken.closing;
  inbox_.leaving = taken.leaving;
  return taken;
}

bool LinkLoop::DoWishes() {
  Inbox inbox = TakeInbox();
  for (const auto& message : inbox.messages) Begin(message);
  telling_ = telling_ || !inbox.texts.empty();
  for (Text& text : inbox.texts) LinkTo(text.peer).QueueText(text.frame, std::move(text.text));
  if (inbox.aborted && !aborted_) {
    aborted_ = inbox.aborted;
    Break(*aborted_);
  }
  if (inbox.broken && failure_.ok()) Break(*inbox.broken);
  return !inbox.closing;
}

// The link to the peer also shows when the peer is gone.
OutLink& LinkLoop::LinkTo(int peer) {
  out_[peer].Open(membership_.places[peer], membership_.rank);
  return out_[peer];
}

void LinkLoop::Begin(const std::shared_ptr<PendingMessage>& message) {
  const MessageBook::Id id = ++last_id_;
  pending_.emplace(id, message);
  if (!failure_.ok()) return EndMessage(id, Refusal(message->name()));
  (void)LinkTo(message->message().peer);
  if (options_.carrier != nullptr) options_.carrier->Called(message);
  MessageBook::Effects fx;
  book_.Begin(id, message->message(), &fx);
  Apply(fx);
}

void LinkLoop::Apply(const MessageBook::Effects& fx) {
  for (const MessageBook::Outgoing& out : fx.out)
    LinkTo(out.peer).Queue(out.frame, out.payload, out.message);
  for (const MessageBook::Ended& ended : fx.ended) {
    ended.status.ok() ? EndMessage(ended.id, ended.status) : Break(ended.status);
  }
  for (const MessageBook::Id met : fx.met) {
    const auto message = pending_.find(met);
    if (message == pending_.end()) return;  // a failure ended it just now
    carried_.emplace(met, absl::InfiniteFuture());
    MessageCarrier::Effects carrier_fx;
    options_.carrier->Met(met, message->second, &carrier_fx);
    Apply(std::move(carrier_fx));
  }
}

void LinkLoop::Apply(MessageCarrier::Effects fx) {
  for (MessageCarrier::Text& text : fx.texts)
    LinkTo(text.peer).QueueText({.kind = LinkFrame::Kind::kCarrier}, std::move(text.text));
  for (const MessageBook::Ended& ended : fx.ended) {
    ended.status.ok() ? EndMessage(ended.id, ended.status) : Break(ended.status);
  }
}

void LinkLoop::Carry() {
  carrier_sleeps_ = absl::InfiniteDuration();
  if (options_.carrier == nullptr) return;
  if (failure_.ok()) {
    MessageCarrier::Effects fx;
    carrier_sleeps_ = options_.carrier->Step(&fx);
    Apply(std::move(fx));
  }
  if (!MayLeave()) return;
  const bool left = !failure_.ok() || options_.carrier->Leave();
  if (!left) carrier_sleeps_ = std::min(carrier_sleeps_, kLeavePoll);
  MutexLock lock(mu_);
  left_ = left;
}

bool LinkLoop::MayLeave() const {
  MutexLock lock(mu_);
  return inbox_.leaving && !left_ && pending_.empty() && inbox_.messages.empty();
}

void LinkLoop::EndMessage(MessageBook::Id id, const absl::Status& status) {
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;
  const std::shared_ptr<PendingMessage> message = found->second;
  pending_.erase(found);
  carried_.erase(id);
  {
    MutexLock lock(mu_);
    --in_flight_;
  }
  message->End(status);
}

absl::Status LinkLoop::Refusal(const std::string& name) const {
  return aborted_ ? AbortedBecause(name, *aborted_) : failure_;
}

void LinkLoop::Break(const absl::Status& why) {
  if (failure_.ok()) {
    failure_ = why;
    if (options_.carrier != nullptr) SayWhatIsQueued();
    if (!aborted_ && options_.on_failure) options_.on_failure(why);
  }
  for (OutLink& link : out_) link.Drop();
  for (InLink& link : in_)
    if (link.filling()) link.Cut();
  if (options_.carrier != nullptr) options_.carrier->Stop();
  book_ = MessageBook(membership_.rank, options_.carrier != nullptr);
  while (!pending_.empty())
    EndMessage(pending_.begin()->first, Refusal(pending_.begin()->second->name()));
}

// A refusal reaches the peer before the peer sees that this rank's group has failed.
void LinkLoop::SayWhatIsQueued() {
  std::vector<uint64_t> written;  // only texts and frames
  for (OutLink& link : out_) link.Write(&written);
}

void LinkLoop::CheckDeadlines() {
  const absl::Time now = Clock::Steady().Now();
  for (const auto& [id, message] : pending_) {
    if (message->deadline() > now) continue;
    return Break(DidNotArrive(message->name(), {message->message().peer}, message->timeout()));
  }
}

// A peer that is gone may have left bytes behind, which are read first.
void LinkLoop::CheckPeers() {
  const absl::Time now = Clock::Steady().Now();
  for (const auto& [id, message] : pending_) {
    const int peer = message->message().peer;
    const bool speaks = std::any_of(in_.begin(), in_.end(),
                                    [peer](const InLink& link) { return link.peer() == peer; });
    if (!out_[peer].ended() || speaks) continue;
    if (const auto carried = carried_.find(id); carried != carried_.end()) {
      carried->second = std::min(carried->second, now);
      if (now - carried->second < kPartDone) continue;
    }
    return Break(WentAway(message->name(), {peer}));
  }
}

absl::Duration LinkLoop::UntilNextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [id, message] : pending_) next = std::min(next, message->deadline());
  return std::clamp(next - Clock::Steady().Now(), absl::ZeroDuration(), kSleepMax);
}

void LinkLoop::Poll() {
  std::vector<pollfd> polled{{membership_.wake.get(), POLLIN, 0},
                             {membership_.listener.get(), POLLIN, 0}};
  for (const OutLink& link : out_)  // a closed one is -1, which poll passes over
    polled.push_back({link.socket(), link.has_more() ? kWritable : kPeerGone, 0});
  for (const InLink& link : in_) polled.push_back({link.socket(), POLLIN, 0});
  const timespec sleep = absl::ToTimespec(std::min(UntilNextDeadline(), carrier_sleeps_));
  (void)ppoll(polled.data(), polled.size(), &sleep, nullptr);  // looks again in any case
  uint64_t wakes = 0;
  (void)!read(membership_.wake.get(), &wakes, sizeof wakes);  // empty: something else woke the loop
  // Links are read before they are seen to have ended.
  Accept();
  ReadAll();
  WriteAll({polled.begin() + 2, polled.begin() + 2 + static_cast<int64_t>(out_.size())});
  CheckTold();
  MutexLock lock(mu_);
  ++turns_;
  caught_up_changed_.NotifyAll();
}

void LinkLoop::CheckTold() {
  if (!telling_ ||
      std::any_of(out_.begin(), out_.end(), [](const OutLink& link) { return link.has_more(); }))
    return;
  telling_ = false;
  if (options_.on_told) options_.on_told();
}

void LinkLoop::Accept() {
  for (;;) {
    absl::StatusOr<FileDescriptor> caller = AcceptLink(membership_.listener);
    if (!caller.ok()) return;  // none, or the system has no socket left; the next turn tries again
    const auto stranger = [](const InLink& link) { return link.peer() < 0; };
    if (std::count_if(in_.begin(), in_.end(), stranger) >= static_cast<int64_t>(kStrangersMax))
      in_.erase(std::find_if(in_.begin(), in_.end(), stranger));
    in_.emplace_back(*std::move(caller));
  }
}

// Whatever a link says may break the messages, which cuts others.
void LinkLoop::ReadAll() {
  const std::string& token = membership_.places[membership_.rank].token;
  for (InLink& link : in_)
    if (!link.Read(token, *this)) link.Cut();
  std::erase_if(in_, [](const InLink& link) { return link.socket() < 0; });
}

absl::Status LinkLoop::Greeted(int rank) {
  const bool known = std::any_of(in_.begin(), in_.end(),
                                 [rank](const InLink& link) { return link.peer() == rank; });
  if (rank < 0 || rank >= static_cast<int>(out_.size()) || rank == membership_.rank || known)
    return absl::InternalError(absl::StrCat("rank ", rank, " cannot call here"));
  return absl::OkStatus();
}

absl::StatusOr<absl::Span<uint8_t>> LinkLoop::RoomFor(int peer, const LinkFrame& frame) {
  return book_.RoomFor(peer, frame);
}

absl::Status LinkLoop::Heard(int peer, const LinkFrame& frame, const std::string& text) {
  MessageBook::Effects fx;
  switch (frame.kind) {
    case LinkFrame::Kind::kNote:
    case LinkFrame::Kind::kVerdict:
    case LinkFrame::Kind::kLeft:
    case LinkFrame::Kind::kFarewell:
      if (options_.on_text) options_.on_text(peer, frame.kind, text);
      return absl::OkStatus();
    case LinkFrame::Kind::kData:
      book_.Arrived(peer, frame.id, &fx);
      break;
    case LinkFrame::Kind::kCarrier: {
      if (!failure_.ok()) return absl::OkStatus();
      if (options_.carrier == nullptr) return absl::InternalError("there is no carrier");
      MessageCarrier::Effects carrier_fx;
      DP_RETURN_IF_ERROR(options_.carrier->Heard(peer, text, &carrier_fx));
      Apply(std::move(carrier_fx));
      return absl::OkStatus();
    }
    default:
      // After a failure the book is empty, and answers to earlier messages mean nothing.
      if (!failure_.ok()) return absl::OkStatus();
      DP_RETURN_IF_ERROR(book_.Heard(peer, frame, &fx));
  }
  Apply(fx);
  return absl::OkStatus();
}

void LinkLoop::WriteAll(const std::vector<pollfd>& polled) {
  std::vector<uint64_t> written;
  for (size_t r = 0; r < out_.size(); ++r) {
    const bool gone = polled[r].fd >= 0 && (polled[r].revents & kEnded) != 0;
    if (gone) {
      out_[r].End();
    } else {
      out_[r].Write(&written);
    }
  }
  MessageBook::Effects fx;
  for (const uint64_t id : written) book_.Written(id, &fx);
  Apply(fx);
}

void LinkLoop::Linger() {
  const absl::Time end = Clock::Steady().Now() + kTextsLeave;
  for (;;) {
    std::vector<pollfd> polled;
    std::vector<uint64_t> written;
    for (OutLink& link : out_) {
      link.Write(&written);
      if (link.has_more()) polled.push_back({link.socket(), POLLOUT, 0});
    }
    const absl::Duration left = end - Clock::Steady().Now();
    if (polled.empty() || left <= absl::ZeroDuration()) return;
    (void)poll(polled.data(), polled.size(), static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    for (const pollfd& each : polled)
      if ((each.revents & kEnded) != 0)
        for (OutLink& link : out_)
          if (link.socket() == each.fd) link.End();
  }
}

}  // namespace dp::engine
