#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace dp::wire {

// Memory for what clients have sent and the store has not answered, shared by all servers of a
// process. A claim that finds none waits until others give theirs back.
//
// A request of many strings claims memory piece by piece, so it may wait while it holds some. To
// keep such requests from waiting for each other for ever, a part of the memory is a reserve: only
// claims that complete their request may use it. Whoever is granted such a claim needs no other
// grant, sends the rest, and gives all back. A request is therefore no longer than the reserve.
//
// Waits of clients last, and end only when another request sets their keys. What they hold is
// counted apart, with a limit of its own, beyond which a wait is refused.
//
// Thread-safe. Outlives the servers that use it.
class MessageMemory {
 public:
  // Names a claim that waits; 0 names none.
  using Ticket = uint64_t;
  struct Claim {
    size_t bytes = 0;    // needed to go on
    size_t whole = 0;    // needed for all of the request at most; at least `bytes`
    bool begun = false;  // the request holds memory already: it comes before those that do not
  };
  struct Taken {
    Ticket waits_as = 0;  // 0: it has its memory
    size_t bytes = 0;     // of the claim, or the whole
  };
  // Called once, on the thread that gives memory back, when the claim has its memory. Must not
  // block, and must not call back into this object.
  using Granted = std::function<void()>;

  // `remedy` is for the log, where memory is short for long.
  explicit MessageMemory(size_t bytes_max,
                         std::string remedy = "let clients send fewer or shorter values at once");
  MessageMemory(const MessageMemory&) = delete;
  MessageMemory& operator=(const MessageMemory&) = delete;

  // Takes memory at once, or returns the ticket of a claim that waits. Precondition: `whole` is at
  // most whole_max(), or `bytes` is the whole.
  Taken Take(const Claim& claim, Granted granted) DP_EXCLUDES(mu_);
  // Returns what a claim that waited has been granted. Once, after its `granted`.
  size_t Collect(Ticket ticket) DP_EXCLUDES(mu_);
  // Withdraws a claim that was not collected, and gives back what it was granted.
  void Withdraw(Ticket ticket) DP_EXCLUDES(mu_);
  void Give(size_t bytes) DP_EXCLUDES(mu_);

  // Counts bytes of waits; returns false, and counts nothing, where there is no room for them.
  bool TakeForWaits(size_t bytes) DP_EXCLUDES(mu_);
  void GiveOfWaits(size_t bytes) DP_EXCLUDES(mu_);

  // Counts bytes that a connection has read and not looked at yet, since it has as many requests
  // open as it may. None are refused: where there are many, connections read less (spares).
  void NoteAhead(size_t bytes) { ahead_.fetch_add(bytes, std::memory_order_relaxed); }
  void NoteAheadGone(size_t bytes) { ahead_.fetch_sub(bytes, std::memory_order_relaxed); }
  // Whether connections that have no request under way are to read little at a time.
  bool spares() const {
    return short_of_memory() || ahead_.load(std::memory_order_relaxed) > ahead_max_;
  }

  // Whether a claim waits.
  bool short_of_memory() const { return shortage() != 0; }
  // Counts the times that memory became short; 0 while it is not.
  uint64_t shortage() const { return shortage_.load(std::memory_order_relaxed); }
  // Returns true to the first caller for this shortage: it logs it.
  bool NoteLogged(uint64_t shortage) { return logged_.exchange(shortage) != shortage; }

  size_t bytes_max() const { return bytes_max_; }
  // The most that one request may come to.
  size_t whole_max() const { return reserve_; }
  size_t waits_max() const { return waits_max_; }
  const std::string& remedy() const { return remedy_; }
  size_t taken() const DP_EXCLUDES(mu_);
  size_t taken_for_waits() const DP_EXCLUDES(mu_);
  // How many claims wait.
  size_t waiting() const DP_EXCLUDES(mu_);

 private:
  // In order of asking; those that have begun come first.
  using Place = std::pair<bool, Ticket>;
  struct Waiting {
    Claim claim;
    Granted granted;
  };

  // How much the claim can have now; 0: none.
  size_t GrantFor(const Claim& claim) const DP_REQUIRES(mu_);
  std::vector<Granted> GrantNext() DP_REQUIRES(mu_);
  void NoteShortage() DP_REQUIRES(mu_);

  const size_t bytes_max_;
  const size_t reserve_;
  const size_t waits_max_;
  const size_t ahead_max_;
  const std::string remedy_;
  std::atomic<size_t> ahead_{0};
  std::atomic<uint64_t> shortage_{0};
  std::atomic<uint64_t> logged_{0};
  mutable Mutex mu_;
  size_t taken_ DP_GUARDED_BY(mu_) = 0;
  size_t for_waits_ DP_GUARDED_BY(mu_) = 0;
  uint64_t shortages_ DP_GUARDED_BY(mu_) = 0;
  Ticket last_ticket_ DP_GUARDED_BY(mu_) = 0;
  std::map<Place, Waiting> waiting_ DP_GUARDED_BY(mu_);
  std::map<Ticket, size_t> granted_ DP_GUARDED_BY(mu_);  // bytes, not collected yet
};

}  // namespace dp::wire
