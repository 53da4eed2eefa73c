#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/collectives/links/link_frame.h"
#include "worker/engine/collectives/message.h"

namespace dp::engine {

// The messages that one rank sends and receives: which call meets which, and when bytes may flow. A
// sender offers a message; the receiver accepts it once it waits for one with that tag; then the
// bytes follow. A receiver therefore never stores what it has not asked for. Messages of one tag
// between two ranks meet in the order of their calls. Other tags and peers do not hold them up.
// Pure: the caller moves frames and bytes. Where a carrier moves the bytes, the book only says
// which messages have met. Both ranks see those of one direction meet in the same order. Not
// thread-safe.
class MessageBook {
 public:
  // Names a message of this rank; never 0.
  using Id = uint64_t;

  struct Outgoing {
    int peer = 0;
    LinkFrame frame;
    absl::Span<const uint8_t> payload;  // of kData
    Id message = 0;                     // of kData: call Written once the payload has left
  };
  struct Ended {
    Id id = 0;
    absl::Status status;
  };
  struct Effects {
    std::vector<Outgoing> out;
    std::vector<Ended> ended;
    std::vector<Id> met;  // only for a carrier; the book then forgets them
  };

  explicit MessageBook(int rank, bool has_carrier = false)
      : rank_(rank), has_carrier_(has_carrier) {}

  // Begins a message that this rank has called. Ids are ascending.
  void Begin(Id id, const Message& message, Effects* fx);
  // A frame of any kind but kData has come from `peer`. Errors: Internal no rank in its right mind
  // sends it.
  absl::Status Heard(int peer, const LinkFrame& frame, Effects* fx);
  // A kData frame has come: the room for its payload. Errors: as Heard.
  absl::StatusOr<absl::Span<uint8_t>> RoomFor(int peer, const LinkFrame& frame) const;
  // The payload of such a frame is complete.
  void Arrived(int peer, uint64_t senders_id, Effects* fx);
  // The payload of an Outgoing has left.
  void Written(Id id, Effects* fx);
  // Whether a message of this rank and `peer` is in flight.
  bool NeedsPeer(int peer) const;

 private:
  struct Offer {
    int peer = 0;
    LinkFrame frame;
  };
  using Offers = std::deque<Offer>;

  // The offer and the waiting receive of this rank have the same tag.
  void Meet(const Offer& offer, Id receive, Effects* fx);

  int rank_;
  bool has_carrier_;
  std::map<Id, Message> sends_;     // offered or accepted
  std::map<Id, Message> receives_;  // waiting, in the order of their calls
  std::map<std::pair<int, uint64_t>, std::pair<Id, Message>> arriving_;  // by peer and its id
  Offers offers_;  // that no receive has met, in the order of arrival
};

}  // namespace dp::engine
