#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dp::engine {

// A rank's place, as its peers see it. With the cards of all, every rank comes to the same verdict:
// whether they can share memory. Rank 0's card also says where to fetch the memory.
struct HostCard {
  std::string layout;     // of the shared memory: differs between releases that do not fit
  std::string kernel;     // the boot id, one for each start of a host, and the time namespace
  std::string network;    // the network namespace: abstract sockets reach no other
  std::string user;       // memory is shared with one's own user only
  std::string host_name;  // for people
  // Rank 0 only: the name of its abstract socket, and the proof that a caller read this card.
  std::string socket;
  std::string token;
  // Why this rank cannot share memory, in words. Empty: it can.
  std::string why_not;

  bool operator==(const HostCard&) const = default;
};

std::string Encode(const HostCard& card);
// Errors: Internal the text is not a card.
absl::StatusOr<HostCard> DecodeHostCard(absl::string_view text);

// Whether the ranks with these cards, in rank order, can share memory. The same answer on every
// rank. Errors: FailedPrecondition names the ranks, their hosts and the difference. Pure.
absl::Status CheckOneHost(const std::vector<HostCard>& cards);

// The card of this process, without socket and token. `why_not` is set if the kernel does not say
// enough.
HostCard ThisHost();

}  // namespace dp::engine
