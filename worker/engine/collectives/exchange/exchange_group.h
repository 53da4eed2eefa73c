#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/links/link_place.h"

namespace dp::engine {

// Moves bytes between ranks. A group can make every operation of that alone. Calls come from one
// thread at a time; Interrupt may come from any.
class Exchanger {
 public:
  using Sent = std::vector<absl::Span<const uint8_t>>;
  using Received = std::vector<absl::Span<uint8_t>>;

  virtual ~Exchanger() = default;

  // The following exchanges are part of the call of this number and shape. Where the exchanger can
  // tell, a rank takes no piece that is part of another call; its exchange then lasts until it is
  // interrupted.
  virtual void Begin(uint64_t number, const CallShape& shape) {
    (void)number;
    (void)shape;
  }
  // Sends sent[r] to rank r, and receives from it received[r], which has the size of what rank r
  // sends. Blocks until both have ended. Pieces may be empty; this rank's own are. Errors:
  // Unavailable a peer went away; DeadlineExceeded, with the missing ranks if they are known.
  virtual absl::Status Exchange(const Sent& sent, const Received& received) = 0;
  // Runs the call in a faster way, with the same bits. Nullopt: there is none.
  virtual std::optional<absl::Status> Run(const Collective& call) {
    (void)call;
    return std::nullopt;
  }
  // Makes the exchange in progress, and every later one, end with an error soon.
  virtual void Interrupt() = 0;
  // The same because the ranks' calls differ. The peers learn that by other means.
  virtual void InterruptDifferingCalls() { Interrupt(); }
};

// A group whose ranks exchange their data by `exchanger`, which is connected. It passes messages if
// it gets the means of `links`, or why there are none; with links it also states how calls differ.
// Blocks until every rank is here, for `connect_timeout` at most, or the group's time limit.
// Errors: DeadlineExceeded; the exchanger's.
absl::StatusOr<std::unique_ptr<Group>> ConnectExchange(
    std::unique_ptr<Exchanger> exchanger, int rank, int size, const GroupOptions& options,
    std::optional<absl::StatusOr<LinkMembership>> links = std::nullopt,
    std::optional<absl::Duration> connect_timeout = std::nullopt);

}  // namespace dp::engine
