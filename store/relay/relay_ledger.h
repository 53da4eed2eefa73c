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
#include "store/async_store.h"
#include "store/operation.h"

namespace dp {

// Decides for a relay (docs/tcpstore.md) what goes into the next batch, what is sent again, which
// waits the coordinator parks, and which answers callers get. Pure: no clock, thread or I/O; the
// same calls give the same decisions. Not thread-safe.
//
// One batch is in flight at a time and stays unchanged until it is answered; new calls go into the
// next batch. A group is one caller's operations in a batch, applied atomically. A group of reads
// only, or of sets only, may be too large for a batch, as PyTorch's requests for many keys are. It
// then goes in several batches, in order.
//
// A wait first travels in a batch, as a group of reads, so that it sees what its caller did before.
// Reads that were not found are then parked. A parking that expires is renewed at once, so that its
// reads keep their place among the waits for elements of a queue. The reads of a parking that is
// lost first go into another batch. A read that was found stays found.
class RelayLedger {
 public:
  struct Limits {
    size_t operations = 4096;        // of one batch or parking; an indivisible group may have more
    size_t bytes = size_t{4} << 20;  // of its keys and values, likewise
    // For an indivisible group. It goes in a message of 20 MiB (base/limits.h): two values of 8 MiB
    // and their key, with headroom.
    size_t indivisible_bytes = size_t{18} << 20;
  };
  // Identifies one call; chosen by the owner, never reused.
  using Caller = uint64_t;

  struct Batch {
    // Counts the batches that change something, from 1. 0 for a batch that only reads, which may be
    // applied any number of times.
    uint64_t sequence = 0;
    std::vector<StoreOperation> operations;
    std::vector<uint32_t> groups;  // how many operations each has, in order
  };
  // The coordinator's reply to a batch: one result for each operation that it applied, and the
  // groups that it rejected, whose results mean nothing. The coordinator may apply only the first
  // operations, but applies a group that writes whole or not at all.
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
  // Reads to park until all of them are found; of a large wait, the first ones.
  struct Parking {
    Caller caller = 0;
    std::vector<StoreOperation> reads;
  };

  explicit RelayLedger(const Limits& limits) : limits_(limits) {}
  RelayLedger() : RelayLedger(Limits()) {}

  // Whether a call with these operations fits into messages.
  // Errors: ResourceExhausted; if it were sent all the same, the relay would end.
  absl::Status CheckSize(const std::vector<StoreOperation>& operations) const;

  // Precondition: there is at least one operation, and they fit.
  void Execute(Caller caller, std::vector<StoreOperation> operations);
  // Precondition: as Execute, and all are reads.
  void Await(Caller caller, std::vector<StoreOperation> reads);
  // Ends a wait. Returns whether it was open; it then gets no other answer.
  bool Cancel(Caller caller);

  // The batch to send: the one in flight again, else the next one; null if there is none. Valid
  // until it is answered.
  const Batch* batch();
  // Takes the answer to the batch. Errors: Internal the reply does not fit the batch; nothing has
  // changed then.
  absl::StatusOr<std::vector<Answer>> OnReply(Reply reply);

  // Waits to park now, because not all of their reads were found. Each is returned once.
  std::vector<Parking> TakeParkings();
  // Takes the answer to a parking; reads that were not found must be parked again. A no-op if the
  // wait was cancelled.
  std::optional<Answer> OnFound(Caller caller, std::vector<StoreResult> results);
  // A parking ended without an answer: the coordinator stopped, or was out of reach. The wait asks
  // again.
  void OnUnparked(Caller caller);

  // Answers every open call with `status`.
  std::vector<Answer> End(const absl::Status& status);

 private:
  struct Group {
    Caller caller = 0;
    bool wait = false;  // the operations are the reads of waits_ that are not found yet
    std::vector<StoreOperation> operations;  // not answered yet
    std::vector<StoreResult> results = {};   // of the answered operations before them

    // Takes the results of the group's first operations.
    void Take(absl::Span<StoreResult> its);
  };
  struct Wait {
    std::vector<StoreOperation> reads;  // in the order asked
    std::vector<StoreResult> results;   // of those that are found
    bool asking = false;                // has a group in queue_ or under_way_
    size_t parked = 0;                  // how many missing reads are parked, while not asking

    std::vector<StoreOperation> Missing() const;
    // Takes the results of the first missing reads.
    void Take(std::vector<StoreResult> results);
    bool AllFound() const;
  };

  void Ask(Caller caller, Wait& wait);
  void MakeBatch();
  // How many of `more`, from the first, fit beside `operations` operations of `bytes` bytes.
  size_t Fitting(const std::vector<StoreOperation>& more, size_t operations, size_t bytes) const;
  absl::Status CheckFits(size_t results) const;
  // Precondition: all operations of the group are answered.
  std::optional<Answer> AnswerTo(Group group);
  // None if its wait was cancelled.
  std::optional<Answer> Refuse(const Group& group, absl::Status status);
  Answer AnswerToWait(Caller caller);

  const Limits limits_;
  std::deque<Group> queue_;
  std::deque<Group> under_way_;  // groups whose operations are in batch_
  Batch batch_;
  uint64_t sequence_ = 0;  // of the last batch that changed something
  std::map<Caller, Wait> waits_;
  std::vector<Caller> unparked_;
};

}  // namespace dp
