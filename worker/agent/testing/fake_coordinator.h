#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/bounded_queue.h"
#include "base/id.h"
#include "base/mutex.h"
#include "client/connection.h"

namespace dp::worker {

// A coordinator for tests of the daemon: says what it is told to say and keeps what it hears.
// Thread-safe.
class FakeCoordinator final : public client::WorkersConnection, public client::LogsConnection {
 public:
  // Everything it hears of registrations and reports, in words: "register a", "rank 0 started",
  // "rank 0 exited code 3: last line". "timeout" when nothing comes.
  std::string NextHeard();

  // The network is down: calls fail with Unavailable, those under way too.
  void SetReachable(bool reachable) DP_EXCLUDES(mu_);
  // It was restarted: same knowledge, new epoch.
  void Restart() DP_EXCLUDES(mu_);
  // It was set up anew, with a directory that knows nothing.
  void SetUpAnew() DP_EXCLUDES(mu_);
  // It goes on from an older copy of its directory, in which the worker has this assignment.
  void GoOnFromACopy(const std::vector<v1::AssignedRank>& ranks) DP_EXCLUDES(mu_);
  // Done while a registration or heartbeat is under way. Before the first of them.
  void During(std::function<void()> done) { during_ = std::move(done); }
  // With the answer to each heartbeat from now on.
  void OfferLease(absl::Duration lease, uint64_t number) DP_EXCLUDES(mu_);
  // Waits for a heartbeat that names this lease; false when patience ends.
  bool AwaitLease(uint64_t number) DP_EXCLUDES(mu_);
  // Ends the current incarnation's lease.
  void LoseWorker() DP_EXCLUDES(mu_);
  // An earlier daemon's incarnation has the lease.
  void GiveLease(Incarnation incarnation) DP_EXCLUDES(mu_);
  // Another daemon has the name: registrations are refused. `silence` returns for how many
  // nanoseconds that daemon has been silent at the listing of this number, from 1.
  using Silence = std::function<int(int listing)>;
  void HoldName(const std::string& name, Silence silence) DP_EXCLUDES(mu_);
  // Nobody has it any more.
  void FreeName() DP_EXCLUDES(mu_);
  // Registrations fail with this from now on, unless it is OK.
  void RefuseRegistrations(const absl::Status& status) DP_EXCLUDES(mu_);
  // So many reports of ranks find nobody.
  void LoseReports(int reports) DP_EXCLUDES(mu_);
  // Waits until so many were refused.
  void AwaitRegistrationsRefused(int refused) DP_EXCLUDES(mu_);
  // The incarnations that the latest registration, refused or not, named as dead.
  std::vector<uint64_t> replaced() const DP_EXCLUDES(mu_);
  // Waits for a registration that names so many; returns what the latest one named.
  std::vector<uint64_t> AwaitReplaced(size_t count) DP_EXCLUDES(mu_);
  // Every rank of the assignment is of job 1, generation 1.
  void Assign(const std::vector<v1::AssignedRank>& ranks) DP_EXCLUDES(mu_);
  // Logs are refused with this until it is OK again.
  void RefuseLogs(const absl::Status& status) DP_EXCLUDES(mu_);
  // The next batches are refused with these, one each.
  void RefuseLogsInTurn(const std::vector<absl::Status>& statuses) DP_EXCLUDES(mu_);
  // Forgets what was stored of a stream beyond `size`.
  void LoseLogsBeyond(v1::LogStream stream, size_t size) DP_EXCLUDES(mu_);
  // Waits for a heartbeat that says that the daemon is shutting down; false when patience ends.
  bool AwaitLeaving() DP_EXCLUDES(mu_);
  // Whether the latest heartbeat said so.
  bool leaving() const DP_EXCLUDES(mu_);
  // Waits until a call tells of this use of the worker's first GPU; false when patience ends.
  bool AwaitGpuUse(int percent) DP_EXCLUDES(mu_);
  // Somebody has drained this worker.
  void DrainWorker(const std::string& name, const std::string& reason) DP_EXCLUDES(mu_);
  // Right after the next listing somebody drains it for this reason instead.
  void DrainWorkerOnceListed(const std::string& reason) DP_EXCLUDES(mu_);
  // Waits until the workers were listed so often, or could not be.
  void AwaitListings(int listings) DP_EXCLUDES(mu_);
  // Whether the rank was reported as ended by its daemon.
  bool stopped(int rank) const DP_EXCLUDES(mu_);
  // Ends all calls, now and later.
  void CancelAll() DP_EXCLUDES(mu_);

  // Waits until a stream of rank 0 holds exactly `text`, with '#' for each missing byte; returns
  // what it holds, at the latest when patience ends.
  std::string AwaitLog(v1::LogStream stream, const std::string& text) DP_EXCLUDES(mu_);
  // Waits until a stream of rank 0 holds so many bytes; returns how many it holds.
  size_t AwaitLogSize(v1::LogStream stream, size_t size) DP_EXCLUDES(mu_);
  std::string log(v1::LogStream stream) const DP_EXCLUDES(mu_);
  size_t largest_batch() const DP_EXCLUDES(mu_);
  // The reasons of all gaps so far, in the order they came in.
  std::vector<v1::LogCutReason> cut_reasons() const DP_EXCLUDES(mu_);
  // Waits until so many more batches were refused, or found nobody.
  void AwaitRefusals(int refusals) DP_EXCLUDES(mu_);
  // When bytes of rank 0 were found, as the batch with that offset said.
  absl::Time found_at(v1::LogStream stream, uint64_t offset) const DP_EXCLUDES(mu_);
  // What the last batch said of its job.
  absl::Time submitted_at() const DP_EXCLUDES(mu_);
  // What was told of a rank's output, the latest last.
  std::vector<v1::RankOutput> told_of(int rank) const DP_EXCLUDES(mu_);

  absl::StatusOr<v1::RegisterResponse> Register(const v1::RegisterRequest& request,
                                                absl::Duration deadline_in) override;
  absl::StatusOr<v1::HeartbeatResponse> Heartbeat(const v1::HeartbeatRequest& request,
                                                  absl::Duration deadline_in) override;
  absl::StatusOr<v1::WatchAssignmentResponse> WatchAssignment(
      const v1::WatchAssignmentRequest& request, absl::Duration deadline_in) override;
  absl::StatusOr<v1::ReportRankResponse> ReportRank(const v1::ReportRankRequest& request,
                                                    absl::Duration deadline_in) override;
  absl::StatusOr<v1::ReportSlotsResponse> ReportSlots(const v1::ReportSlotsRequest& request,
                                                      absl::Duration deadline_in) override;
  absl::StatusOr<v1::ListWorkersResponse> ListWorkers(const v1::ListWorkersRequest& request,
                                                      absl::Duration deadline_in) override;
  // Heard as "undrain NAME"; "undrain refused: NAME" where the worker is drained for another reason
  // than that of the request.
  absl::StatusOr<v1::UndrainResponse> Undrain(const v1::UndrainRequest& request,
                                              absl::Duration deadline_in) override;
  // For dpctl; no daemon asks.
  absl::StatusOr<v1::DrainResponse> Drain(const v1::DrainRequest&, absl::Duration) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::WatchWorkersResponse> WatchWorkers(const v1::WatchWorkersRequest&,
                                                        absl::Duration) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::AppendLogsResponse> AppendLogs(const v1::AppendLogsRequest& request,
                                                    absl::Duration deadline_in) override;
  absl::StatusOr<v1::ReadLogsResponse> ReadLogs(const v1::ReadLogsRequest& request,
                                                absl::Duration deadline_in) override;

 private:
  void Hear(std::string what);
  void Give(const std::vector<v1::AssignedRank>& ranks, uint64_t version) DP_REQUIRES(mu_);
  absl::Status CheckNetwork() const DP_REQUIRES(mu_);
  absl::Status CheckLease(uint64_t incarnation) const DP_REQUIRES(mu_);
  void AwaitUntil(const std::function<bool()>& holds) DP_REQUIRES(mu_);

  BoundedQueue<std::string> heard_{1000};
  std::vector<std::string> unread_;  // the test's thread only
  std::function<void()> during_ = [] {};

  mutable Mutex mu_;
  CondVar changed_;
  bool reachable_ DP_GUARDED_BY(mu_) = true;
  bool cancelled_ DP_GUARDED_BY(mu_) = false;
  uint64_t epoch_ DP_GUARDED_BY(mu_) = 1;
  absl::Status registrations_ DP_GUARDED_BY(mu_);
  int registrations_refused_ DP_GUARDED_BY(mu_) = 0;
  int reports_to_lose_ DP_GUARDED_BY(mu_) = 0;
  std::vector<uint64_t> replaced_ DP_GUARDED_BY(mu_);
  std::string held_name_ DP_GUARDED_BY(mu_);
  Silence silence_ DP_GUARDED_BY(mu_);
  int listings_ DP_GUARDED_BY(mu_) = 0;
  v1::Worker drained_ DP_GUARDED_BY(mu_);
  std::string next_drain_ DP_GUARDED_BY(mu_);  // its reason; empty: none comes
  absl::Status logs_ DP_GUARDED_BY(mu_);
  std::deque<absl::Status> logs_in_turn_ DP_GUARDED_BY(mu_);
  // Incarnations are named a, b, c ... in the order they registered in.
  std::vector<uint64_t> incarnations_ DP_GUARDED_BY(mu_);
  uint64_t current_ DP_GUARDED_BY(mu_) = 0;  // the incarnation with a lease
  v1::Assignment assignment_ DP_GUARDED_BY(mu_);
  std::map<v1::LogStream, std::string> stored_ DP_GUARDED_BY(mu_);
  size_t largest_batch_ DP_GUARDED_BY(mu_) = 0;
  std::vector<v1::LogCutReason> cut_reasons_ DP_GUARDED_BY(mu_);
  int refusals_ DP_GUARDED_BY(mu_) = 0;
  std::map<std::pair<v1::LogStream, uint64_t>, absl::Time> found_at_ DP_GUARDED_BY(mu_);
  absl::Time submitted_at_ DP_GUARDED_BY(mu_);
  std::vector<v1::RankOutput> told_ DP_GUARDED_BY(mu_);
  bool leaving_ DP_GUARDED_BY(mu_) = false;
  v1::HeartbeatResponse offer_ DP_GUARDED_BY(mu_);
  uint64_t lease_known_ DP_GUARDED_BY(mu_) = 0;
  std::set<int> gpu_uses_ DP_GUARDED_BY(mu_);  // of the first GPU, in percent, since the restart
  std::set<int> stopped_ DP_GUARDED_BY(mu_);   // ranks
};

}  // namespace dp::worker
