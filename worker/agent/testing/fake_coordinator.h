#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/bounded_queue.h"
#include "base/id.h"
#include "base/mutex.h"
#include "client/connection.h"
#include "client/testing/in_process.h"
#include "dp/v1/logs.grpc.pb.h"
#include "dp/v1/workers.grpc.pb.h"

namespace dp::worker {

// A coordinator for tests of the daemon: answers as the test orders and records what it hears.
// Thread-safe.
class FakeCoordinator final : public v1::Workers::Service, public v1::Logs::Service {
 public:
  ~FakeCoordinator() override { CancelAll(); }

  // Over which the daemon under test calls. Calls do not end at their deadlines.
  client::Connection& connection() { return *connection_; }

  // The next call that it heard, in words: "register a", "rank 0 started", "rank 0 exited code 3:
  // last line". "timeout" if nothing comes.
  std::string NextHeard();

  // False: the network is down, and calls fail with Unavailable, those in flight too.
  void SetReachable(bool reachable) DP_EXCLUDES(mu_);
  // Plays a restart: same knowledge, new epoch.
  void Restart() DP_EXCLUDES(mu_);
  // Plays a new coordinator, with an empty directory.
  void SetUpAnew() DP_EXCLUDES(mu_);
  // Continues from an older copy of its directory, in which the worker has this assignment.
  void GoOnFromACopy(const std::vector<v1::AssignedRank>& ranks) DP_EXCLUDES(mu_);
  // Calls `done` during each registration and heartbeat. Set it before the first of them.
  void During(std::function<void()> done) { during_ = std::move(done); }
  // Offers this lease in the answer to each heartbeat from now on.
  void OfferLease(absl::Duration lease, uint64_t number) DP_EXCLUDES(mu_);
  // Waits for a heartbeat that names this lease; false on timeout.
  bool AwaitLease(uint64_t number) DP_EXCLUDES(mu_);
  // Ends the current incarnation's lease.
  void LoseWorker() DP_EXCLUDES(mu_);
  // The worker's certificate counts for no heartbeat any more.
  void RevokeWorker() DP_EXCLUDES(mu_);
  // An earlier daemon's incarnation has the lease.
  void GiveLease(Incarnation incarnation) DP_EXCLUDES(mu_);
  // Another daemon holds the name: registrations are rejected. `silence` returns how many
  // nanoseconds that daemon has been silent at each listing; listings count from 1.
  using Silence = std::function<int(int listing)>;
  void HoldName(const std::string& name, Silence silence) DP_EXCLUDES(mu_);
  // Nobody holds the name any more.
  void FreeName() DP_EXCLUDES(mu_);
  // Registrations fail with this status from now on, unless it is OK.
  void RefuseRegistrations(const absl::Status& status) DP_EXCLUDES(mu_);
  // Listings of the workers fail with this status from now on, unless it is OK.
  void RefuseListings(const absl::Status& status) DP_EXCLUDES(mu_);
  // The next report of a rank is rejected as one of an unknown job.
  void RejectReport() DP_EXCLUDES(mu_);
  // The next `reports` reports of ranks fail with Unavailable.
  void LoseReports(int reports) DP_EXCLUDES(mu_);
  // Waits until so many registrations were rejected.
  void AwaitRegistrationsRefused(int refused) DP_EXCLUDES(mu_);
  // The incarnations that the latest registration, rejected or not, named as dead.
  std::vector<uint64_t> replaced() const DP_EXCLUDES(mu_);
  // Waits for a registration that names so many dead incarnations. Returns those of the latest one.
  std::vector<uint64_t> AwaitReplaced(size_t count) DP_EXCLUDES(mu_);
  // Puts every rank into job 1, generation 1.
  void Assign(const std::vector<v1::AssignedRank>& ranks) DP_EXCLUDES(mu_);
  // Waits for a heartbeat that announces the shutdown; false on timeout.
  bool AwaitLeaving() DP_EXCLUDES(mu_);
  // Whether the latest heartbeat announced the shutdown.
  bool leaving() const DP_EXCLUDES(mu_);
  // Waits until a call reports this utilisation of a GPU; false on timeout.
  bool AwaitGpuUse(int percent) DP_EXCLUDES(mu_);
  // Plays an operator who drains this worker.
  void DrainWorker(const std::string& name, const std::string& reason) DP_EXCLUDES(mu_);
  // Right after the next listing, changes the drain's reason to this one.
  void DrainWorkerOnceListed(const std::string& reason) DP_EXCLUDES(mu_);
  // Waits for so many listings of the workers, failed ones included.
  void AwaitListings(int listings) DP_EXCLUDES(mu_);
  // Whether the daemon reported that it stopped the rank itself.
  bool stopped(int rank) const DP_EXCLUDES(mu_);
  // Cancels all calls, now and later.
  void CancelAll() DP_EXCLUDES(mu_);

  // In fake_coordinator_logs.cc.

  // Logs are rejected with this status until it is OK again.
  void RefuseLogs(const absl::Status& status) DP_EXCLUDES(mu_);
  // The next batches are rejected with these, one each.
  void RefuseLogsInTurn(const std::vector<absl::Status>& statuses) DP_EXCLUDES(mu_);
  // Batches of logs, or reports of ranks, wait from now on, until LetGo.
  void HoldLogs() DP_EXCLUDES(mu_);
  void HoldReports() DP_EXCLUDES(mu_);
  // Waits until one of them waits.
  void AwaitHeld() DP_EXCLUDES(mu_);
  void LetGo() DP_EXCLUDES(mu_);
  // Waits for a report on this rank's output.
  void AwaitTold(int rank) DP_EXCLUDES(mu_);
  // Forgets the stored bytes of a stream beyond `size`.
  void LoseLogsBeyond(v1::LogStream stream, size_t size) DP_EXCLUDES(mu_);
  // Waits until a stream of rank 0 holds exactly `text`, with '#' for each missing byte. Returns
  // the stream, on timeout too.
  std::string AwaitLog(v1::LogStream stream, const std::string& text) DP_EXCLUDES(mu_);
  // Waits until a stream of rank 0 holds so many bytes. Returns how many it holds.
  size_t AwaitLogSize(v1::LogStream stream, size_t size) DP_EXCLUDES(mu_);
  std::string log(v1::LogStream stream) const DP_EXCLUDES(mu_);
  size_t largest_batch() const DP_EXCLUDES(mu_);
  // The reasons of all gaps so far, in order of arrival.
  std::vector<v1::LogCutReason> cut_reasons() const DP_EXCLUDES(mu_);
  // Waits until so many more batches failed.
  void AwaitRefusals(int refusals) DP_EXCLUDES(mu_);
  // The found time that a batch gave for this offset; InfinitePast if none.
  absl::Time found_at(v1::LogStream stream, uint64_t offset) const DP_EXCLUDES(mu_);
  // The submission time of the latest batch's job.
  absl::Time submitted_at() const DP_EXCLUDES(mu_);
  // All reports on this rank's output, the latest last.
  std::vector<v1::RankOutput> told_of(int rank) const DP_EXCLUDES(mu_);

 private:
  grpc::Status Register(grpc::ServerContext*, const v1::RegisterRequest* request,
                        v1::RegisterResponse* response) override {
    return client::ToGrpc(Register(*request), response);
  }
  grpc::Status Heartbeat(grpc::ServerContext*, const v1::HeartbeatRequest* request,
                         v1::HeartbeatResponse* response) override {
    return client::ToGrpc(Heartbeat(*request), response);
  }
  grpc::Status WatchAssignment(grpc::ServerContext*, const v1::WatchAssignmentRequest* request,
                               v1::WatchAssignmentResponse* response) override {
    return client::ToGrpc(WatchAssignment(*request), response);
  }
  grpc::Status ReportRank(grpc::ServerContext*, const v1::ReportRankRequest* request,
                          v1::ReportRankResponse* response) override {
    return client::ToGrpc(ReportRank(*request), response);
  }
  grpc::Status ReportSlots(grpc::ServerContext*, const v1::ReportSlotsRequest* request,
                           v1::ReportSlotsResponse* response) override {
    return client::ToGrpc(ReportSlots(*request), response);
  }
  grpc::Status List(grpc::ServerContext*, const v1::ListWorkersRequest* request,
                    v1::ListWorkersResponse* response) override {
    return client::ToGrpc(List(*request), response);
  }
  grpc::Status Undrain(grpc::ServerContext*, const v1::UndrainRequest* request,
                       v1::UndrainResponse* response) override {
    return client::ToGrpc(Undrain(*request), response);
  }
  grpc::Status Append(grpc::ServerContext*, const v1::AppendLogsRequest* request,
                      v1::AppendLogsResponse* response) override {
    return client::ToGrpc(Append(*request), response);
  }

  absl::StatusOr<v1::RegisterResponse> Register(const v1::RegisterRequest& request)
      DP_EXCLUDES(mu_);
  absl::StatusOr<v1::HeartbeatResponse> Heartbeat(const v1::HeartbeatRequest& request)
      DP_EXCLUDES(mu_);
  absl::StatusOr<v1::WatchAssignmentResponse> WatchAssignment(
      const v1::WatchAssignmentRequest& request) DP_EXCLUDES(mu_);
  absl::StatusOr<v1::ReportRankResponse> ReportRank(const v1::ReportRankRequest& request)
      DP_EXCLUDES(mu_);
  absl::StatusOr<v1::ReportSlotsResponse> ReportSlots(const v1::ReportSlotsRequest& request)
      DP_EXCLUDES(mu_);
  absl::StatusOr<v1::ListWorkersResponse> List(const v1::ListWorkersRequest& request)
      DP_EXCLUDES(mu_);
  // Heard as "undrain NAME", or "undrain refused: NAME" if the drain's reason is not the request's.
  absl::StatusOr<v1::UndrainResponse> Undrain(const v1::UndrainRequest& request) DP_EXCLUDES(mu_);
  absl::StatusOr<v1::AppendLogsResponse> Append(const v1::AppendLogsRequest& request)
      DP_EXCLUDES(mu_);

  void Hear(std::string what);
  void Give(const std::vector<v1::AssignedRank>& ranks, uint64_t version) DP_REQUIRES(mu_);
  absl::Status CheckNetwork() const DP_REQUIRES(mu_);
  absl::Status CheckLease(uint64_t incarnation) const DP_REQUIRES(mu_);
  void AwaitUntil(const std::function<bool()>& holds) DP_REQUIRES(mu_);
  // Waits while `hold` holds such calls.
  void WaitIfHeld(const bool& hold) DP_REQUIRES(mu_);

  BoundedQueue<std::string> heard_{1000};
  std::vector<std::string> unread_;  // the test's thread only
  std::function<void()> during_ = [] {};

  mutable Mutex mu_;
  CondVar changed_;
  bool reachable_ DP_GUARDED_BY(mu_) = true;
  bool cancelled_ DP_GUARDED_BY(mu_) = false;
  uint64_t epoch_ DP_GUARDED_BY(mu_) = 1;
  absl::Status registrations_ DP_GUARDED_BY(mu_);
  absl::Status refused_listings_ DP_GUARDED_BY(mu_);
  int registrations_refused_ DP_GUARDED_BY(mu_) = 0;
  int reports_to_lose_ DP_GUARDED_BY(mu_) = 0;
  bool reject_report_ DP_GUARDED_BY(mu_) = false;
  bool hold_logs_ DP_GUARDED_BY(mu_) = false;
  bool hold_reports_ DP_GUARDED_BY(mu_) = false;
  int held_ DP_GUARDED_BY(mu_) = 0;
  std::vector<uint64_t> replaced_ DP_GUARDED_BY(mu_);
  std::string held_name_ DP_GUARDED_BY(mu_);
  Silence silence_ DP_GUARDED_BY(mu_);
  int listings_ DP_GUARDED_BY(mu_) = 0;
  v1::Worker drained_ DP_GUARDED_BY(mu_);
  std::string next_drain_ DP_GUARDED_BY(mu_);  // the next drain's reason; empty: none
  absl::Status logs_ DP_GUARDED_BY(mu_);
  std::deque<absl::Status> logs_in_turn_ DP_GUARDED_BY(mu_);
  // Incarnations are named a, b, c ... in the order of their registrations.
  std::vector<uint64_t> incarnations_ DP_GUARDED_BY(mu_);
  uint64_t current_ DP_GUARDED_BY(mu_) = 0;  // the incarnation with a lease
  bool revoked_ DP_GUARDED_BY(mu_) = false;
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
  std::set<int> gpu_uses_ DP_GUARDED_BY(mu_);  // in percent, since the restart
  std::set<int> stopped_ DP_GUARDED_BY(mu_);   // ranks

  // Last, so that the calls end first.
  client::InProcess server_{static_cast<v1::Workers::Service&>(*this),
                            static_cast<v1::Logs::Service&>(*this)};
  const std::unique_ptr<client::Connection> connection_ = server_.Connect();
};

}  // namespace dp::worker
