#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "worker/engine/collectives/nccl/nccl_api.h"
#include "worker/engine/collectives/nccl/nccl_operations.h"
#include "worker/engine/collectives/nccl/roll_call.h"

namespace dp::engine {

// How soon a rank suspects that a peer is missing, and how long it then listens. All times are
// shares of an operation's time limit, so that a rank has its answer by the deadline.
struct SuspicionTimes {
  absl::Duration timeout;   // of one operation, since this rank has reached it
  absl::Duration quiet;     // without a completed operation, before a rank reports that it lives
  absl::Duration interval;  // between two beats
  absl::Duration patience;  // without a beat, before a peer counts as silent
  absl::Duration listen;    // before a deadline, so that the verdict is ready when it passes
};
// `interval_max` bounds the interval for long timeouts: rarer beats would only delay errors.
SuspicionTimes SuspicionTimesFor(absl::Duration timeout, absl::Duration interval_max);

// The findings of NCCL's own watch over its ranks; requested when an operation seems stuck.
class SecondOpinion {
 public:
  virtual ~SecondOpinion() = default;
  // Starts the request, once; does not block.
  virtual void Ask() = 0;
  // The words received so far; may be empty.
  virtual std::string Words() const = 0;
};

// Drives the operations of one rank over its communicator. Gives them to the stream one behind the
// other without waiting for their ends. Watches the communicator's errors, and the events and
// deadlines of operations. After a failure, finds out who is missing. Never blocks: Step does what
// can be done now. Owned by its group, whose one thread calls it; nothing else uses the
// communicator.
//
// A failure goes through three states. Running: all is well. Inquiring: the communicator is being
// aborted, and this rank listens to its peers. Broken: every operation has ended with the verdict,
// and so does every later one. The abort may take longer than that.
class NcclPipeline {
 public:
  struct Parts {
    NcclApi& api;
    NcclApi::Communicator communicator;  // owned from here on
    NcclApi::Stream stream;              // borrowed
    NcclOperations& operations;
    RollCall& roll_call;
    SecondOpinion* opinion = nullptr;
    SuspicionTimes times;
    const Clock& clock;
    // Begins to abort the communicator, and returns at once.
    std::function<void(NcclApi::Communicator)> abort;
    // Whether the group may leave now; null: at any time.
    std::function<bool()> may_leave = nullptr;
    // Whether this rank has heard what peers told before an error: it may explain the error. Null:
    // peers tell nothing.
    std::function<bool()> has_caught_up = nullptr;
  };

  explicit NcclPipeline(const Parts& parts);
  // Begins to abort what is in flight.
  ~NcclPipeline();

  // Returns how long to wait before the next call, unless something is pushed or aborted.
  absl::Duration Step();

 private:
  enum class State { kRunning, kInquiring, kBroken, kLeft };
  using Handle = NcclOperations::Handle;

  absl::Status Advance();
  absl::Status GiveNext();
  bool MayLeave() const;
  absl::Status Give(NcclOperation& operation);
  absl::Status NoteArrivals();
  absl::Status EndFinished();
  void Fail(const absl::Status& why);
  void Expire();
  void StopCommunicator();
  void AbortCommunicator();
  void Inquire();
  absl::Status Verdict(const RollCall::Answer& answer) const;
  absl::Status ErrorVerdict(const Attendance& attendance, bool heard) const;
  void Refuse();
  void Break(const absl::Status& verdict);
  void BreakAborted(const absl::Status& why);
  absl::Duration Pause() const;
  Over over() const;
  bool awaits_own_input() const;
  absl::Time deadline() const;
  bool Suspects() const;
  bool Asks() const;
  void TellPart();
  const std::string& FrontName() const;

  const Parts parts_;
  NcclApi::Communicator communicator_;
  State state_ = State::kRunning;
  absl::Time now_;           // of this Step
  std::deque<Handle> line_;  // not ended, in order
  size_t given_ = 0;         // operations at the head of line_ that the stream has
  bool giving_ = false;      // the next one is on its way to the stream
  absl::Time giving_since_;
  size_t arrived_in_line_ = 0;  // operations at the head of line_ whose inputs are there
  int64_t ended_ = 0;           // operations that have left line_
  absl::Time last_end_;         // when the latest operation ended; at first, when connected
  absl::Time arrived_at_;       // when this rank was seen to have reached the head of line_
  absl::Time stopped_at_;       // while inquiring
  bool expired_ = false;        // while inquiring: after a deadline, not after an error
  int64_t awaited_ = 0;         // while inquiring: the number of the stuck operation
  absl::Status failure_;        // while inquiring: the error; when broken: the verdict
  std::optional<absl::Status> aborted_;  // the reason, if an abort broke the group
};

}  // namespace dp::engine
