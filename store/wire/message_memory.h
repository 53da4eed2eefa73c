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

// Memory for requests that clients have sent and the store has not answered, shared by all servers
// of a process. A claim that finds none waits until others give theirs back.
//
// A request of many strings claims memory piece by piece, so it may wait while it holds some. A
// reserve keeps such requests from deadlock: only claims that complete their request may use it. A
// request with such a grant needs no other, arrives completely, and gives all back. A request is
// therefore no longer than the reserve.
//
// Waits of clients last, and end only when another request sets their keys. Their memory is counted
// separately, with a limit of its own; beyond the limit waits are rejected.
//
// Thread-safe. Must outlive the servers that use it.
class MessageMemory {
 public:
  // Identifies a waiting claim; 0 is none.
  using Ticket = uint64_t;
  struct Claim {
    size_t bytes = 0;    // needed to continue
    size_t whole = 0;    // the most that the request still needs; at least `bytes`
    bool begun = false;  // the request holds memory already and precedes those that do not
  };
  struct Taken {
    Ticket waits_as = 0;  // 0: the claim was granted at once
    size_t bytes = 0;     // granted: `bytes` of the claim, or `whole`
  };
  // Called once, on the thread that gives memory back, when the claim is granted. Must not block,
  // and must not call back into this object.
  using Granted = std::function<void()>;

  // `remedy` is advice for the log when memory stays short.
  explicit MessageMemory(size_t bytes_max,
                         std::string remedy = "let clients send fewer or shorter values at once");
  MessageMemory(const MessageMemory&) = delete;
  MessageMemory& operator=(const MessageMemory&) = delete;

  // Takes memory at once, or returns the ticket of a waiting claim. Precondition: `whole` is at
  // most whole_max(), or `bytes` is the whole.
  Taken Take(const Claim& claim, Granted granted) DP_EXCLUDES(mu_);
  // Returns the grant of a claim that waited. Call it once, after `granted`.
  size_t Collect(Ticket ticket) DP_EXCLUDES(mu_);
  // Withdraws a claim that was not collected, and gives back its grant.
  void Withdraw(Ticket ticket) DP_EXCLUDES(mu_);
  void Give(size_t bytes) DP_EXCLUDES(mu_);

  // Counts bytes of waits. Returns false, and counts nothing, if there is no room for them.
  bool TakeForWaits(size_t bytes) DP_EXCLUDES(mu_);
  void GiveOfWaits(size_t bytes) DP_EXCLUDES(mu_);

  // Counts bytes that a connection has read but not parsed, because it has as many open requests as
  // allowed. None are rejected; with many of them connections read less (spares).
  void NoteAhead(size_t bytes) { ahead_.fetch_add(bytes, std::memory_order_relaxed); }
  void NoteAheadGone(size_t bytes) { ahead_.fetch_sub(bytes, std::memory_order_relaxed); }
  // Whether connections without a request in progress must read little at a time.
  bool spares() const {
    return short_of_memory() || ahead_.load(std::memory_order_relaxed) > ahead_max_;
  }

  // Whether a claim waits.
  bool short_of_memory() const { return shortage() != 0; }
  // The number of the current shortage, from 1; 0 while memory is not short.
  uint64_t shortage() const { return shortage_.load(std::memory_order_relaxed); }
  // Returns true to the first caller for this shortage, which must log it.
  bool NoteLogged(uint64_t shortage) { return logged_.exchange(shortage) != shortage; }

  size_t bytes_max() const { return bytes_max_; }
  // The most memory that one request may need.
  size_t whole_max() const { return reserve_; }
  size_t waits_max() const { return waits_max_; }
  const std::string& remedy() const { return remedy_; }
  size_t taken() const DP_EXCLUDES(mu_);
  size_t taken_for_waits() const DP_EXCLUDES(mu_);
  // The number of waiting claims.
  size_t waiting() const DP_EXCLUDES(mu_);

 private:
  // In order of arrival; requests that have begun come first.
  using Place = std::pair<bool, Ticket>;
  struct Waiting {
    Claim claim;
    Granted granted;
  };

  // How much the claim can get now; 0: none.
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
  std::map<Ticket, size_t> granted_ DP_GUARDED_BY(mu_);  // bytes not collected yet
};

}  // namespace dp::wire
