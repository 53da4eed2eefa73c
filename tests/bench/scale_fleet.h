#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/backoff.h"
#include "base/mutex.h"
#include "dp/v1/workers.grpc.pb.h"
#include "tests/bench/bench_credentials.h"
#include "tests/bench/scale_timer.h"

namespace dp::bench {

class Fleet;

// A daemon as the coordinator sees it. On one connection it registers, sends four heartbeats per
// lease, watches its assignment and reports its ranks. It backs off and registers again as
// worker/agent/lease.cc does.
//
// At most one callback runs for the lease and one for the watch at any time; each uses its own
// members.
class Host {
 public:
  Host(Fleet& fleet, int number);

  // Registers, then sends heartbeats until the process ends. The fleet counts the registration.
  void Register();
  // Watches until the process ends. Fleet::AwaitAssigned counts the host once it has `ranks` ranks.
  // Call it after registration.
  void WatchFor(int ranks);
  // Reports each rank of its assignment as started; calls `reported` once per rank. Call it once
  // the assignment is counted. The assignment does not change while no rank of the job ends.
  void ReportStarted(std::function<void()> reported);

 private:
  void TakeRegistration(const v1::RegisterResponse& response);
  void BeatAt(absl::Time when);
  void Beat(absl::Time due);
  void TakeBeat(absl::Time due, const grpc::Status& status, const v1::HeartbeatResponse& response);
  void Report(const v1::ReportRankRequest& report, std::function<void()> reported);

  Fleet& fleet_;
  const int number_;
  const uint64_t incarnation_;
  std::unique_ptr<v1::Workers::Stub> workers_;

  std::atomic<uint64_t> worker_id_ = 0;
  uint64_t epoch_ = 0;
  uint64_t lease_number_ = 0;
  absl::Duration between_beats_;
  Backoff backoff_;

  v1::Assignment assignment_;
  bool assigned_ = false;
};

// Many hosts, and what happened to them. Must outlive every call, so the load never destroys it.
class Fleet {
 public:
  Fleet(std::string address, int hosts, int slots);

  // Each of these returns when all hosts are done.
  void Register();
  void AwaitAssigned(int ranks_each);
  void ReportStarted();
  // Waits until all hosts have registered in `epoch` or later.
  void AwaitRegistered(uint64_t epoch);

  const std::string& address() const { return address_; }
  const client::Credentials& credentials() const { return credentials_; }
  int slots() const { return slots_; }
  Timer& timer() { return timer_; }

  // The durations of the heartbeats that were due from `begin` to `end`, ascending. A duration
  // lasts from the due time until the answer or failure. Returns once all of them have ended.
  std::vector<absl::Duration> BeatsDue(absl::Time begin, absl::Time end) DP_EXCLUDES(mu_);
  // Heartbeats that the coordinator rejected because it had given up their worker.
  int refused_beats() const { return refused_beats_; }

  // For hosts.
  void NoteDue(absl::Time due) DP_EXCLUDES(mu_);
  void NoteBeat(absl::Time due, absl::Duration took) DP_EXCLUDES(mu_);
  void NoteRefused() { ++refused_beats_; }
  void NoteRegistered(uint64_t epoch) DP_EXCLUDES(mu_);
  void NoteAssigned() DP_EXCLUDES(mu_);

 private:
  const std::string address_;
  const client::Credentials credentials_{CredentialsFor(address_)};
  const int slots_;
  Mutex mu_;
  CondVar changed_;
  std::multiset<absl::Time> open_beats_ DP_GUARDED_BY(mu_);  // due, not yet answered or failed
  // When each was due, and how long it took.
  std::vector<std::pair<absl::Time, absl::Duration>> beats_ DP_GUARDED_BY(mu_);
  uint64_t epoch_ DP_GUARDED_BY(mu_) = 0;     // the latest epoch of a registration's answer
  size_t registered_ DP_GUARDED_BY(mu_) = 0;  // in that epoch
  size_t assigned_ DP_GUARDED_BY(mu_) = 0;
  std::atomic<int> refused_beats_ = 0;
  std::vector<std::unique_ptr<Host>> hosts_;
  Timer timer_;  // last: its callbacks use hosts
};

}  // namespace dp::bench
