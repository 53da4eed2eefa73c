#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/access/caller.h"
#include "server/access/rpc.h"

namespace dp::server {

// A call that was refused, or a connection that was shut down. Equal ones of one caller at one
// address are one.
struct RefusedCall {
  absl::Time at;  // the last of them
  std::string caller;
  std::string peer;        // of the last of them
  std::optional<Rpc> rpc;  // absent: a connection
  std::string reason;
  uint64_t count = 1;
};

// The latest refused calls, for `dpctl audit`, and a line in the log for each. A flood of
// calls fills neither memory nor disk. A caller who is refused often takes only a part of the list
// from the others. All who prove nothing take a part together, since they may call from any number
// of addresses. Neither place nor lines of callers who are known go to them. Thread-safe.
class Refusals {
 public:
  static constexpr size_t kKept = 1'000;
  // A caller may be refused for a new reason each time.
  static constexpr size_t kKeptOfCaller = 100;
  static constexpr size_t kKeptOfStrangers = kKept / 2;
  // Bytes of a text that are kept; it may repeat what the caller sent.
  static constexpr size_t kTextBytesMax = 1'024;
  // Lines in the log, about strangers and about others: so many at once, and then one each so
  // often.
  static constexpr int kLinesAtOnce = 50;
  static constexpr absl::Duration kLineEvery = absl::Seconds(1);
  // A refusal that repeats gets another line after this time without one.
  static constexpr absl::Duration kLineAgainAfter = absl::Minutes(10);

  void Add(const Caller& caller, Rpc rpc, const absl::Status& why, absl::Time at) DP_EXCLUDES(mu_);
  // A connection that was shut down; `caller` is as much as is known of who calls.
  void AddConnection(const std::string& caller, const std::string& peer, const absl::Status& why,
                     absl::Time at) DP_EXCLUDES(mu_);
  // Counts a call that was rejected by its headers. Such calls may be too many to add each.
  void CountAtHeaders() { at_headers_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t at_headers() const { return at_headers_.load(std::memory_order_relaxed); }
  // Oldest first, by the last call of each.
  std::deque<RefusedCall> Latest() const DP_EXCLUDES(mu_);

 private:
  struct Kept {
    RefusedCall call;
    bool of_stranger = false;
    absl::Time due_in_log = absl::InfinitePast();
  };
  using List = std::list<Kept>;
  using Source = std::pair<std::string, std::string>;  // the caller, the address without port
  using Key = std::tuple<Source, std::optional<Rpc>, std::string>;  // and the reason
  struct LogBudget {
    double lines_left = kLinesAtOnce;
    absl::Time counted_at = absl::UnixEpoch();
  };

  static Source SourceOf(const RefusedCall& call);
  // Returns whether the log is to have a line.
  bool Note(const RefusedCall& refusal, bool of_stranger) DP_EXCLUDES(mu_);
  // Adds the refusal to the list.
  Kept& Keep(const RefusedCall& refusal, bool of_stranger) DP_REQUIRES(mu_);
  void MakeRoom(const Source& source, bool for_stranger) DP_REQUIRES(mu_);
  void Forget(List::iterator kept) DP_REQUIRES(mu_);
  static bool MayLog(LogBudget& budget, absl::Time at);

  std::atomic<uint64_t> at_headers_ = 0;
  mutable Mutex mu_;
  List latest_ DP_GUARDED_BY(mu_);  // oldest first
  absl::flat_hash_map<Key, List::iterator> by_key_ DP_GUARDED_BY(mu_);
  absl::flat_hash_map<Source, size_t> of_source_ DP_GUARDED_BY(mu_);  // how many are kept
  size_t of_strangers_ DP_GUARDED_BY(mu_) = 0;                        // the same
  LogBudget strangers_budget_ DP_GUARDED_BY(mu_), budget_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::server
