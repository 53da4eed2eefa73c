#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/store/async_store.h"
#include "base/store/operation.h"

namespace dp {

// The decisions of a relay: which operations of its callers travel in the next batch, what is sent
// again, which waits are parked at the coordinator, and who gets which answer (docs/tcpstore.md).
// Pure: no clock, thread or I/O; the same calls give the same decisions. Not thread-safe.
//
// One batch is under way at a time, and stays the same until it is answered; whatever comes
// meanwhile makes the next one. In a batch, a group is what one caller asked: it is applied as one,
// unless it is too large for a batch and only reads or only sets, as PyTorch's requests for many
// keys do: then it goes in several, in order. A wait first travels in a batch, as a group of reads,
// so that it sees what its caller did before; what it has not found is parked then: again at once
// when the time of a parking is over, which leaves it its place among those who wait for an element
// of a queue, and after another batch when the parking is lost. What it has found stays found.
class RelayLedger {
 public:
  struct Limits {
    size_t operations = 4096;  // of one batch or parking; what cannot be divided may have more
    size_t bytes = size_t{4} << 20;  // of its keys and values, likewise
    // Of what cannot be divided. It goes in a message of 20 MiB (base/limits.h): two values of 8
    // MiB and their key, with room for the rest.
    size_t indivisible_bytes = size_t{18} << 20;
  };
  // Names one call; chosen by the owner, never twice.
  using Caller = uint64_t;

  struct Batch {
    // Counts the batches that change something, from 1; 0 for one that only reads, which may be
    // applied any number of times.
    uint64_t sequence = 0;
    std::vector<StoreOperation> operations;
    std::vector<uint32_t> groups;  // how many operations each has, in order
  };
  // What the coordinator says to a batch: one result for each operation that it took, which may be
  // fewer than all, though of a group that writes all or none; and the groups that it refused,
  // whose results mean nothing.
  struct Refusal {
    size_t group = 0;
    absl::Status status;
  };
  struct Reply {
    std::vector<StoreResult> results;
    std::vector<Refusal> refusals;
  };
  struct Answer {
    Caller caller = 0;
    AsyncStore::Results results;
  };
  // Reads that are to be parked until all of them are found: of a large wait, the first ones.
  struct Parking {
    Caller caller = 0;
    std::vector<StoreOperation> reads;
  };

  explicit RelayLedger(const Limits& limits) : limits_(limits) {}
  RelayLedger() : RelayLedger(Limits()) {}

  // Whether a call with these operations fits into messages.
  // Errors: ResourceExhausted; sent all the same, it would be the end of the relay.
  absl::Status CheckSize(const std::vector<StoreOperation>& operations) const;

  // Precondition: there is one at least, and they fit.
  void Execute(Caller caller, std::vector<StoreOperation> operations);
  // Precondition: likewise, and all are reads.
  void Await(Caller caller, std::vector<StoreOperation> reads);
  // Ends a wait. Returns whether it was there: it gets no other answer then.
  bool Cancel(Caller caller);

  // What to send: the batch under way again, else the next one; null when there is nothing. Valid
  // until it is answered.
  const Batch* batch();
  // The batch is answered. Errors: Internal the reply does not fit it; nothing has changed then.
  absl::StatusOr<std::vector<Answer>> OnReply(Reply reply);

  // Waits whose reads were not all found: to be parked now. Each is told once.
  std::vector<Parking> TakeParkings();
  // A parking has been answered; what was not found is to be parked again. No effect when it has
  // been cancelled.
  std::optional<Answer> OnFound(Caller caller, std::vector<StoreResult> results);
  // A parking has ended without: the coordinator has, or was not reached. The wait asks again.
  void OnUnparked(Caller caller);

  // Every call that is not answered is: with `status`.
  std::vector<Answer> End(const absl::Status& status);

 private:
  struct Group {
    Caller caller = 0;
    bool wait = false;  // the operations are those of waits_ that are not found yet
    std::vector<StoreOperation> operations;  // which are not answered yet
    std::vector<StoreResult> results = {};   // of those before them

    // The results of the first of its operations.
    void Take(absl::Span<StoreResult> its);
  };
  struct Wait {
    std::vector<StoreOperation> reads;  // in the order asked
    std::vector<StoreResult> results;   // of those that are found
    bool asking = false;                // stands in queue_ or under_way_
    size_t parked = 0;                  // so many of those that are missing, while it is not asking

    std::vector<StoreOperation> Missing() const;
    // Takes the results of the first that were missing.
    void Take(std::vector<StoreResult> results);
    bool AllFound() const;
  };

  void Ask(Caller caller, Wait& wait);
  void MakeBatch();
  // How many of the operations, from the first, have room beside `operations` of so many `bytes`.
  size_t Fitting(const std::vector<StoreOperation>& more, size_t operations, size_t bytes) const;
  absl::Status CheckFits(size_t results) const;
  // Its operations are all answered.
  std::optional<Answer> AnswerTo(Group group);
  // None: its wait was cancelled.
  std::optional<Answer> Refuse(const Group& group, absl::Status status);
  Answer AnswerToWait(Caller caller);

  const Limits limits_;
  std::deque<Group> queue_;
  std::deque<Group> under_way_;  // its operations are in batch_
  Batch batch_;
  uint64_t sequence_ = 0;  // of the last batch that changed something
  std::map<Caller, Wait> waits_;
  std::vector<Caller> unparked_;
};

}  // namespace dp
