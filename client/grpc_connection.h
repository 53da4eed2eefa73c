#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"
#include "client/async_store_connection.h"
#include "client/connection.h"
#include "dp/v1/checkpoints.grpc.pb.h"
#include "dp/v1/jobs.grpc.pb.h"
#include "dp/v1/logs.grpc.pb.h"
#include "dp/v1/store.grpc.pb.h"
#include "dp/v1/workers.grpc.pb.h"
#include "dp/v1/worlds.grpc.pb.h"

namespace dp::client {

// All services over one gRPC channel. Thread-safe. The owner must not destroy it while calls are in
// flight; CancelAll ends them first. The destructor waits until gRPC's threads have let go of calls
// that have ended, so it must not run on one of these threads.
class GrpcConnection final : public JobsConnection,
                             public WorkersConnection,
                             public WorldsConnection,
                             public StoreConnection,
                             public LogsConnection,
                             public CheckpointsConnection,
                             public AsyncStoreConnection {
 public:
  // `address` is host:port. Connects lazily; an unreachable coordinator gives Unavailable.
  explicit GrpcConnection(const std::string& address);
  ~GrpcConnection() override;

  // Ends every call in flight, and every later one, with Cancelled. Any thread; idempotent.
  void CancelAll() DP_EXCLUDES(mu_);

  absl::StatusOr<v1::SubmitResponse> Submit(const v1::SubmitRequest& request,
                                            absl::Duration deadline_in) override;
  absl::StatusOr<v1::GetJobResponse> GetJob(const v1::GetJobRequest& request,
                                            absl::Duration deadline_in) override;
  absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& request,
                                                absl::Duration deadline_in) override;
  absl::StatusOr<v1::WatchJobResponse> WatchJob(const v1::WatchJobRequest& request,
                                                absl::Duration deadline_in) override;
  absl::StatusOr<v1::CancelResponse> Cancel(const v1::CancelRequest& request,
                                            absl::Duration deadline_in) override;
  absl::StatusOr<v1::PlanResponse> Plan(const v1::PlanRequest& request,
                                        absl::Duration deadline_in) override;
  absl::StatusOr<v1::HoldResponse> Hold(const v1::HoldRequest& request,
                                        absl::Duration deadline_in) override;
  absl::StatusOr<v1::ReleaseResponse> Release(const v1::ReleaseRequest& request,
                                              absl::Duration deadline_in) override;
  absl::StatusOr<v1::SetPriorityResponse> SetPriority(const v1::SetPriorityRequest& request,
                                                      absl::Duration deadline_in) override;
  absl::StatusOr<v1::RequeueResponse> Requeue(const v1::RequeueRequest& request,
                                              absl::Duration deadline_in) override;
  absl::StatusOr<v1::WatchEventsResponse> WatchEvents(const v1::WatchEventsRequest& request,
                                                      absl::Duration deadline_in) override;

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
  absl::StatusOr<v1::DrainResponse> Drain(const v1::DrainRequest& request,
                                          absl::Duration deadline_in) override;
  absl::StatusOr<v1::UndrainResponse> Undrain(const v1::UndrainRequest& request,
                                              absl::Duration deadline_in) override;
  absl::StatusOr<v1::WatchWorkersResponse> WatchWorkers(const v1::WatchWorkersRequest& request,
                                                        absl::Duration deadline_in) override;

  absl::StatusOr<v1::JoinResponse> Join(const v1::JoinRequest& request,
                                        absl::Duration deadline_in) override;
  absl::StatusOr<v1::WatchWorldResponse> WatchWorld(const v1::WatchWorldRequest& request,
                                                    absl::Duration deadline_in) override;
  absl::StatusOr<v1::CompleteFirstStepResponse> CompleteFirstStep(
      const v1::CompleteFirstStepRequest& request, absl::Duration deadline_in) override;
  absl::StatusOr<v1::AccuseResponse> Accuse(const v1::AccuseRequest& request,
                                            absl::Duration deadline_in) override;

  absl::StatusOr<v1::ExecuteResponse> Execute(const v1::ExecuteRequest& request,
                                              absl::Duration deadline_in) override;
  absl::StatusOr<v1::AwaitResponse> Await(const v1::AwaitRequest& request,
                                          absl::Duration deadline_in) override;
  absl::StatusOr<v1::ListWaitersResponse> ListWaiters(const v1::ListWaitersRequest& request,
                                                      absl::Duration deadline_in) override;

  absl::StatusOr<v1::AppendLogsResponse> AppendLogs(const v1::AppendLogsRequest& request,
                                                    absl::Duration deadline_in) override;
  absl::StatusOr<v1::ReadLogsResponse> ReadLogs(const v1::ReadLogsRequest& request,
                                                absl::Duration deadline_in) override;

  absl::StatusOr<v1::RegisterCheckpointResponse> RegisterCheckpoint(
      const v1::RegisterCheckpointRequest& request, absl::Duration deadline_in) override;
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(
      const v1::ListCheckpointsRequest& request, absl::Duration deadline_in) override;
  absl::StatusOr<v1::RegisterWeightsResponse> RegisterWeights(
      const v1::RegisterWeightsRequest& request, absl::Duration deadline_in) override;

  std::shared_ptr<StoreLink::Call> StartExecute(v1::ExecuteRequest request,
                                                absl::Duration deadline_in,
                                                Done<v1::ExecuteResponse> done) override;
  std::shared_ptr<StoreLink::Call> StartAwait(v1::AwaitRequest request, absl::Duration deadline_in,
                                              Done<v1::AwaitResponse> done) override;
  std::shared_ptr<ParkStream> OpenPark() override;

 private:
  // One attempt of one RPC of the store, with a callback.
  template <typename Request, typename Response>
  struct AsyncCall;
  // A call that has begun; `done` follows.
  template <typename Request, typename Response>
  std::shared_ptr<AsyncCall<Request, Response>> BeginAsync(Request request,
                                                           absl::Duration deadline_in,
                                                           Done<Response> done);
  template <typename Started>
  static std::shared_ptr<StoreLink::Call> HandleOf(const std::shared_ptr<Started>& call);
  // The callback for gRPC at the end of the call.
  template <typename Started>
  std::function<void(grpc::Status)> EndOf(std::shared_ptr<Started> call);

  // One attempt of one RPC, with a context of its own that CancelAll can reach.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(Stub& stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const Request& request, absl::Duration deadline_in);
  // Keeps the destructor waiting. A context shares the channel. If a thread of gRPC's released the
  // last share, gRPC 1.51 would wait there for that thread's own end.
  std::shared_ptr<void> Hold() DP_EXCLUDES(mu_);
  void Begin(grpc::ClientContext& context) DP_EXCLUDES(mu_);
  void End(grpc::ClientContext& context) DP_EXCLUDES(mu_);
  void AwaitConnected(absl::Duration deadline_in);
  // `cancelled_here`: this side has cancelled the call, or all calls.
  absl::Status ToAbsl(const grpc::Status& status, bool cancelled_here) const;
  bool all_cancelled() const DP_EXCLUDES(mu_);

  const std::string address_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Jobs::Stub> jobs_;
  const std::unique_ptr<v1::Workers::Stub> workers_;
  const std::unique_ptr<v1::Worlds::Stub> worlds_;
  const std::unique_ptr<v1::Store::Stub> store_;
  const std::unique_ptr<v1::Logs::Stub> logs_;
  const std::unique_ptr<v1::Checkpoints::Stub> checkpoints_;

  mutable Mutex mu_;
  CondVar changed_;
  int holds_ DP_GUARDED_BY(mu_) = 0;
  absl::flat_hash_set<grpc::ClientContext*> under_way_ DP_GUARDED_BY(mu_);
  bool cancelled_ DP_GUARDED_BY(mu_) = false;
};

}  // namespace dp::client
