#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/engine/collectives/collective.h"
#include "worker/engine/collectives/message.h"

namespace dp::engine {

// The options that all backends share.
struct GroupOptions {
  // The time limit of one operation, from its call to its end. Over NCCL, where operations queue on
  // the device, it counts from when the device has reached the operation.
  absl::Duration timeout = absl::Minutes(30);
  // Called if the group has ended for its owner while a thread of it hangs in a foreign library.
  // The thread then stays to the end of the process (docs/collectives.md, "Gloo").
  std::function<void()> on_left_behind = nullptr;
};

// When the backend began and ended an operation, on its group's clock; InfiniteFuture before.
struct WorkTimes {
  absl::Time begun = absl::InfiniteFuture();
  absl::Time ended = absl::InfiniteFuture();
};

// One collective in flight. Thread-safe; may outlive its Group (it then reports Aborted).
class Work {
 public:
  virtual ~Work() = default;

  // Blocks until the operation has ended, was aborted or exceeded the group's timeout; later calls
  // return the same status. After an error the operation's memory has unspecified contents and must
  // not be used.
  // Errors: DeadlineExceeded names the operation and, where known, the ranks that did not arrive;
  // Unavailable names the peer that went away; Aborted carries Abort's reason. InvalidArgument
  // where the backend sees that the ranks' calls disagree; ResourceExhausted thousands of
  // operations are waiting already.
  virtual absl::Status Wait() = 0;
  // Orders the result before the work that the caller gives its compute stream from now on. Returns
  // without waiting for the result, so the host keeps its device busy. The memory still belongs to
  // the operation for everybody but that stream. Ok does not vouch for the result: Wait and every
  // later operation report an error or a deadline, within the group's timeout. Until Wait has
  // answered, nothing computed from the result may leave the device. On the CPU there is no stream:
  // same as Wait.
  virtual absl::Status WaitOnStream() { return Wait(); }
  virtual bool done() const = 0;
  virtual WorkTimes times() const = 0;
};

// The ranks of one generation, bound together for collectives. Every rank calls the same operations
// in the same order. The operations run in that order, one at a time, beside the caller; each sees
// what its predecessor left in the same memory.
// On CPU backends, a reduction combines each element's values in an order of ranks that its caller
// names, a tree by default (docs/ddp.md, "Ordered sums"). Neither backend nor layout therefore
// changes a bit.
// Memory given to an operation belongs to it until Wait returns. The group does not touch it
// afterwards, not even after an error, with two exceptions. Over NCCL it may, after an error, until
// it has ended. A call of Gloo that never returns may, as its error then says.
// Calls come from one thread; Abort may come from any. After the first error the group is broken
// for good: every later operation fails with that error. A rank that is done calls Leave last; the
// destructor aborts what is in flight.
class Group {
 public:
  virtual ~Group() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // The same ranks, for memory of the host. All other operations take memory of the device on which
  // the ranks compute. Over NCCL this is GPU memory; other memory gives an error or ends the
  // process. Both groups share one order of operations. On the CPU this is the group itself; on a
  // device its calls copy, and return when they have ended. Owned by the group.
  virtual Group& on_host() { return *this; }

  // Memory that is fastest for the data of all-reduces, on a cache line, with zeros. Over shared
  // memory, peers read and write it where it lies, if all ranks call with memory of their own
  // groups. It is then the group's: it ends with the group, and after an error of an operation,
  // peers may still write to it. Call it between operations. The default is the host's memory.
  // Throws std::bad_alloc.
  virtual absl::Span<uint8_t> Allocate(size_t bytes);

  // In place: afterwards every rank has the reduction of all ranks' `data`.
  std::unique_ptr<Work> AllReduce(Elements data, Reduction reduction);
  // Afterwards `root` has the reduction in its `data`. The others' stay as they are.
  std::unique_ptr<Work> Reduce(Elements data, Reduction reduction, int root);
  // `data` has a part of equal size for each rank, in rank order. Afterwards `part` is the
  // reduction of all ranks' parts for this rank. It may be that part of `data`, and overlaps no
  // other.
  std::unique_ptr<Work> ReduceScatter(ConstElements data, Elements part, Reduction reduction);
  // In place: afterwards every rank has root's elements.
  std::unique_ptr<Work> Broadcast(Elements data, int root);
  // `gathered` has size() times the bytes of `data`, in rank order. `data` may be this rank's place
  // there, and overlaps no other.
  std::unique_ptr<Work> AllGather(ConstElements data, absl::Span<uint8_t> gathered);
  // Each rank sends sent[r] to rank r, which has as many bytes in received[this rank]. Pieces may
  // be empty; memory received into overlaps no other. A gather, a scatter and an all-to-all are
  // exchanges, whose `verb` and `type` are the same on all ranks.
  std::unique_ptr<Work> Exchange(std::vector<absl::Span<const uint8_t>> sent,
                                 std::vector<absl::Span<uint8_t>> received,
                                 CallShape::Verb verb = CallShape::Verb::kExchange,
                                 DataType type = DataType::kUint8);
  // Ends when all ranks have called it, within `timeout` if given, else within the group's. Over
  // NCCL only the group's counts.
  std::unique_ptr<Work> Barrier(std::optional<absl::Duration> timeout = std::nullopt);

  // Sends `data` to rank `to`, which receives it from this one with the same tag, type and count.
  // Only these two ranks take part. Messages run beside each other and beside the collectives, in
  // no order to them: wait for an operation before its result is sent. Messages of one tag between
  // two ranks meet in the order of their calls.
  std::unique_ptr<Work> Send(ConstElements data, int to, int tag = 0);
  std::unique_ptr<Work> Receive(Elements data, int from, int tag = 0);

  // Runs any of the collectives above. Errors: Unimplemented the backend does not have it.
  virtual std::unique_ptr<Work> Start(Collective call) = 0;
  // Sends or receives. By default Unimplemented.
  virtual std::unique_ptr<Work> Pass(const Message& message);
  // This rank's last operation. Ends when every peer has called Leave or is gone, so no peer loses
  // unread data with the connection. If a group ends without Leave, a slower peer may conclude that
  // this rank died. Errors: DeadlineExceeded, Aborted.
  virtual std::unique_ptr<Work> Leave() = 0;
  // Ends every operation, in flight or later, with Aborted and `why`, within 1 s even while a peer
  // is stopped. Local: peers learn of it when this group or its process ends. Idempotent; the first
  // reason stays.
  virtual void Abort(const absl::Status& why) = 0;

 private:
  struct Freed {
    void operator()(uint8_t* memory) const;
  };
  std::vector<std::unique_ptr<uint8_t, Freed>> allocated_;
};

}  // namespace dp::engine
