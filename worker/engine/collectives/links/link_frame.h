#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "worker/engine/collectives/reduce/elements.h"

namespace dp::engine {

// A frame is what a rank says to another over a link. The frames of one link go one way, in order;
// a payload may follow each. Ranks have one byte order, as everywhere in a group.
struct LinkFrame {
  enum class Kind : uint8_t {
    kOffer = 1,  // the sender of a message has it ready
    kAccept,     // the receiver waits for it
    kRefuse,     // the receiver expects another size or type
    kData,       // the message; the payload is its bytes
    kNote,       // the payload is CallNotes (call_ledger.h)
    kVerdict,    // the payload says how the calls of the ranks differ
    kLeft,       // the payload lists the ranks that have left while others call
    kFarewell,   // the payload lists the ranks because of which the sender fails
    kCarrier,    // the payload is for the receiver's MessageCarrier
  };

  bool operator==(const LinkFrame&) const = default;

  Kind kind = Kind::kOffer;
  DataType type = DataType::kUint8;  // kOffer, kRefuse: as that rank calls the message
  uint16_t unused = 0;
  int32_t tag = 0;
  uint64_t id = 0;       // the sender's number of the message
  uint64_t bytes = 0;    // kOffer, kRefuse: as `type`
  uint64_t payload = 0;  // the bytes that follow
};
static_assert(sizeof(LinkFrame) == 32 && std::is_trivially_copyable_v<LinkFrame>);

// The first bytes on a link: who calls, and the proof that the caller belongs to the group.
struct LinkGreeting {
  char token[32] = {};
  int32_t rank = 0;
};
static_assert(sizeof(LinkGreeting) == 36 && std::is_trivially_copyable_v<LinkGreeting>);

// Notes are short; a longer one is an error.
inline constexpr uint64_t kLinkTextMax = uint64_t{1} << 20;

// System calls on one link before the others, deadlines and Abort have their turn.
inline constexpr int kLinkCallsPerTurn = 64;

}  // namespace dp::engine
