#include "worker/engine/collectives/links/message_book.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dp::engine {
namespace {

// A rank has at most 4096 messages in flight (PeerLinks), all of them perhaps to one peer.
constexpr size_t kOffersOfPeerMax = 4096;

absl::Status NotAFrame(int peer, absl::string_view what) {
  return absl::InternalError(absl::StrCat("rank ", peer, " sent ", what));
}

absl::Status Mismatch(const Message& mine, int sender, absl::string_view sent, int receiver,
                      absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(NameOf(mine), ": rank ", sender, " sends ", sent,
                                                 ", rank ", receiver, " expects ", expected));
}

}  // namespace

void MessageBook::Begin(Id id, const Message& message, Effects* fx) {
  if (message.sends) {
    sends_.emplace(id, message);
    fx->out.push_back({message.peer,
                       {.kind = LinkFrame::Kind::kOffer,
                        .type = message.type,
                        .tag = message.tag,
                        .id = id,
                        .bytes = message.bytes()},
                       {},
                       0});
    return;
  }
  receives_.emplace(id, message);
  const auto offer = std::find_if(offers_.begin(), offers_.end(), [&](const Offer& each) {
    return each.peer == message.peer && each.frame.tag == message.tag;
  });
  if (offer == offers_.end()) return;
  const Offer met = *offer;
  offers_.erase(offer);
  Meet(met, id, fx);
}

void MessageBook::Meet(const Offer& offer, Id id, Effects* fx) {
  const Message message = receives_.at(id);
  receives_.erase(id);
  LinkFrame answer{.kind = LinkFrame::Kind::kAccept,
                   .type = message.type,
                   .tag = message.tag,
                   .id = offer.frame.id,
                   .bytes = message.bytes()};
  if (offer.frame.type == message.type && offer.frame.bytes == message.bytes()) {
    if (has_carrier_) {
      fx->met.push_back(id);
    } else {
      arriving_.emplace(std::pair(offer.peer, offer.frame.id), std::pair(id, message));
    }
  } else {
    answer.kind = LinkFrame::Kind::kRefuse;
    fx->ended.push_back(
        {id, Mismatch(message, offer.peer, ContentsOf(offer.frame.type, offer.frame.bytes), rank_,
                      ContentsOf(message.type, message.bytes()))});
  }
  fx->out.push_back({offer.peer, answer, {}, 0});
}

absl::Status MessageBook::Heard(int peer, const LinkFrame& frame, Effects* fx) {
  if (frame.kind == LinkFrame::Kind::kOffer) {
    const auto receive = std::find_if(receives_.begin(), receives_.end(), [&](const auto& each) {
      return each.second.peer == peer && each.second.tag == frame.tag;
    });
    if (receive != receives_.end()) {
      Meet({peer, frame}, receive->first, fx);
      return absl::OkStatus();
    }
    const auto of_peer = std::count_if(offers_.begin(), offers_.end(),
                                       [peer](const Offer& each) { return each.peer == peer; });
    if (of_peer >= static_cast<int64_t>(kOffersOfPeerMax))
      return NotAFrame(peer, "too many offers");
    offers_.push_back({peer, frame});
    return absl::OkStatus();
  }
  const auto send = sends_.find(frame.id);
  if (send == sends_.end() || send->second.peer != peer)
    return NotAFrame(peer, "an answer to no message");
  const Message& message = send->second;
  if (frame.kind == LinkFrame::Kind::kAccept && has_carrier_) {
    fx->met.push_back(frame.id);
    sends_.erase(send);
    return absl::OkStatus();
  }
  if (frame.kind == LinkFrame::Kind::kAccept) {
    fx->out.push_back({peer,
                       {.kind = LinkFrame::Kind::kData,
                        .type = message.type,
                        .tag = message.tag,
                        .id = frame.id,
                        .bytes = message.bytes(),
                        .payload = message.bytes()},
                       message.sent,
                       frame.id});
    return absl::OkStatus();
  }
  fx->ended.push_back({frame.id, Mismatch(message, rank_, ContentsOf(message.type, message.bytes()),
                                          peer, ContentsOf(frame.type, frame.bytes))});
  sends_.erase(send);
  return absl::OkStatus();
}

absl::StatusOr<absl::Span<uint8_t>> MessageBook::RoomFor(int peer, const LinkFrame& frame) const {
  const auto arriving = arriving_.find({peer, frame.id});
  if (arriving == arriving_.end() || arriving->second.second.bytes() != frame.payload)
    return NotAFrame(peer, "data that nobody has accepted");
  return arriving->second.second.received;
}

void MessageBook::Arrived(int peer, uint64_t senders_id, Effects* fx) {
  const auto arriving = arriving_.find({peer, senders_id});
  if (arriving == arriving_.end()) return;
  fx->ended.push_back({arriving->second.first, absl::OkStatus()});
  arriving_.erase(arriving);
}

void MessageBook::Written(Id id, Effects* fx) {
  if (sends_.erase(id) > 0) fx->ended.push_back({id, absl::OkStatus()});
}

bool MessageBook::NeedsPeer(int peer) const {
  const auto with_peer = [peer](const auto& each) { return each.second.peer == peer; };
  return std::any_of(sends_.begin(), sends_.end(), with_peer) ||
         std::any_of(receives_.begin(), receives_.end(), with_peer) ||
         std::any_of(arriving_.begin(), arriving_.end(),
                     [peer](const auto& each) { return each.first.first == peer; });
}

}  // namespace dp::engine
