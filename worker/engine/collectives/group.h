#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace dp::engine {

// kMean: the ranks' mean. On the CPU their sum, then divided by their number; over NCCL in NCCL's
// way, which may scale each rank's values first.
enum class ReduceOp { kSum, kMin, kMax, kMean };

// What every backend is told when its group is made.
struct GroupOptions {
  // How long one operation may take, from its call to its end; over NCCL, where they queue on the
  // device, from when the device has come to it.
  absl::Duration timeout = absl::Minutes(30);
};

// When the backend began and ended an operation, on the clock of its group; InfiniteFuture before.
struct WorkTimes {
  absl::Time begun = absl::InfiniteFuture();
  absl::Time ended = absl::InfiniteFuture();
};

// One collective under way. Thread-safe; may outlive its Group (it then reports Aborted).
class Work {
 public:
  virtual ~Work() = default;

  // Blocks until the operation has ended, was aborted, or ran out of the group's deadline; later
  // calls give the same answer. After an error the operation's memory has unspecified contents and
  // nothing of it may be used. Errors: DeadlineExceeded names the operation and the ranks that did
  // not arrive where known; Unavailable a peer went away (named); Aborted with the reason given to
  // Abort; InvalidArgument the ranks' calls do not agree, where the backend sees it;
  // ResourceExhausted thousands of operations are waiting already.
  virtual absl::Status Wait() = 0;
  // Orders the result before what the caller gives its compute stream from now on, and returns
  // without waiting for it: a host that never waits keeps its device busy. The memory stays the
  // operation's for everybody but that stream. Ok says nothing of the result: an error or a
  // deadline shows with Wait and with every later operation, within the group's timeout, and until
  // Wait has answered nothing that was computed from the result may leave the device. On the CPU
  // there is no stream: as Wait.
  virtual absl::Status WaitOnStream() { return Wait(); }
  virtual bool done() const = 0;
  virtual WorkTimes times() const = 0;
};

// The ranks of one generation, bound together for collectives. Every rank calls the same operations
// in the same order; operations run in that order, one after another, beside the caller, and each
// sees what the one before it left in the same memory.
// On CPU backends sums add the ranks' values of each element in rank order 0..n-1, so neither
// backend nor layout changes a bit (docs/ddp.md, "Ordered sums"). Memory given to an operation
// belongs to it until Wait returns, and is touched by nobody afterwards, errors included. Calls
// come from one thread, but Abort may come from any. After the first error the group is broken for
// good: every later operation fails with that error. A rank that is done calls Leave last; the
// destructor aborts what is under way.
class Group {
 public:
  virtual ~Group() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // The same ranks, for what lies in the host's memory. All other operations take memory of where
  // the ranks compute: of a GPU over NCCL, which ends with an error, or ends the process, where it
  // is given another. The two share one order of operations. On the CPU it is the group itself; on
  // a device its calls copy, and return when they have ended. Owned by the group.
  virtual Group& on_host() { return *this; }

  // In place: afterwards every rank has the reduction of all ranks' `data`.
  virtual std::unique_ptr<Work> AllReduce(absl::Span<float> data, ReduceOp op) = 0;
  // In place: afterwards every rank has root's bytes.
  virtual std::unique_ptr<Work> Broadcast(absl::Span<uint8_t> data, int root) = 0;
  // `gathered` has size() * data.size() bytes, rank r's at r * data.size(); it does not overlap
  // `data`.
  virtual std::unique_ptr<Work> AllGather(absl::Span<const uint8_t> data,
                                          absl::Span<uint8_t> gathered) = 0;
  // This rank's last operation: ends when every peer has come to its own or is gone, so that nobody
  // loses with the connection what it still has to read. A group that ends without it may look to a
  // slower peer as if this rank had died. Errors: DeadlineExceeded and Aborted.
  virtual std::unique_ptr<Work> Leave() = 0;
  // Ends, with Aborted and `why`, every operation under way and to come, within 1 s even while a
  // peer is stopped. Peers are not told: they learn it when this group or its process ends.
  // Idempotent; the first reason stays.
  virtual void Abort(const absl::Status& why) = 0;
};

}  // namespace dp::engine
