#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "dp/v1/checkpoints.pb.h"
#include "dp/v1/jobs.pb.h"
#include "dp/v1/logs.pb.h"
#include "dp/v1/store.pb.h"
#include "dp/v1/workers.pb.h"
#include "dp/v1/worlds.pb.h"

// The coordinator's services as seen by a client: one method per RPC, one attempt per call,
// blocking until the answer or until `deadline_in` has passed. Implementations are thread-safe.
// RetryLoop (retry_loop.h) does the retries. Transports are implementations: gRPC in
// grpc_connection.h, a lossy in-process network in tests.
//
// Errors: those of the RPC (proto/dp/v1), Unavailable when the coordinator cannot be reached,
// DeadlineExceeded.

namespace dp::client {

class JobsConnection {
 public:
  virtual ~JobsConnection() = default;
  virtual absl::StatusOr<v1::SubmitResponse> Submit(const v1::SubmitRequest& request,
                                                    absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::GetJobResponse> GetJob(const v1::GetJobRequest& request,
                                                    absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& request,
                                                        absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::WatchJobResponse> WatchJob(const v1::WatchJobRequest& request,
                                                        absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::CancelResponse> Cancel(const v1::CancelRequest& request,
                                                    absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::PlanResponse> Plan(const v1::PlanRequest& request,
                                                absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::HoldResponse> Hold(const v1::HoldRequest& request,
                                                absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::ReleaseResponse> Release(const v1::ReleaseRequest& request,
                                                      absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::SetPriorityResponse> SetPriority(const v1::SetPriorityRequest& request,
                                                              absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::RequeueResponse> Requeue(const v1::RequeueRequest& request,
                                                      absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::WatchEventsResponse> WatchEvents(const v1::WatchEventsRequest& request,
                                                              absl::Duration deadline_in) = 0;
};

class WorkersConnection {
 public:
  virtual ~WorkersConnection() = default;
  virtual absl::StatusOr<v1::RegisterResponse> Register(const v1::RegisterRequest& request,
                                                        absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::HeartbeatResponse> Heartbeat(const v1::HeartbeatRequest& request,
                                                          absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::WatchAssignmentResponse> WatchAssignment(
      const v1::WatchAssignmentRequest& request, absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::ReportRankResponse> ReportRank(const v1::ReportRankRequest& request,
                                                            absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::ReportSlotsResponse> ReportSlots(const v1::ReportSlotsRequest& request,
                                                              absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::ListWorkersResponse> ListWorkers(const v1::ListWorkersRequest& request,
                                                              absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::DrainResponse> Drain(const v1::DrainRequest& request,
                                                  absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::UndrainResponse> Undrain(const v1::UndrainRequest& request,
                                                      absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::WatchWorkersResponse> WatchWorkers(
      const v1::WatchWorkersRequest& request, absl::Duration deadline_in) = 0;
};

class WorldsConnection {
 public:
  virtual ~WorldsConnection() = default;
  virtual absl::StatusOr<v1::JoinResponse> Join(const v1::JoinRequest& request,
                                                absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::WatchWorldResponse> WatchWorld(const v1::WatchWorldRequest& request,
                                                            absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::CompleteFirstStepResponse> CompleteFirstStep(
      const v1::CompleteFirstStepRequest& request, absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::AccuseResponse> Accuse(const v1::AccuseRequest& request,
                                                    absl::Duration deadline_in) = 0;
};

class StoreConnection {
 public:
  virtual ~StoreConnection() = default;
  virtual absl::StatusOr<v1::ExecuteResponse> Execute(const v1::ExecuteRequest& request,
                                                      absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::AwaitResponse> Await(const v1::AwaitRequest& request,
                                                  absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::ListWaitersResponse> ListWaiters(const v1::ListWaitersRequest& request,
                                                              absl::Duration deadline_in) = 0;
};

class LogsConnection {
 public:
  virtual ~LogsConnection() = default;
  virtual absl::StatusOr<v1::AppendLogsResponse> AppendLogs(const v1::AppendLogsRequest& request,
                                                            absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::ReadLogsResponse> ReadLogs(const v1::ReadLogsRequest& request,
                                                        absl::Duration deadline_in) = 0;
};

class CheckpointsConnection {
 public:
  virtual ~CheckpointsConnection() = default;
  virtual absl::StatusOr<v1::RegisterCheckpointResponse> RegisterCheckpoint(
      const v1::RegisterCheckpointRequest& request, absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(
      const v1::ListCheckpointsRequest& request, absl::Duration deadline_in) = 0;
  virtual absl::StatusOr<v1::RegisterWeightsResponse> RegisterWeights(
      const v1::RegisterWeightsRequest& request, absl::Duration deadline_in) = 0;
};

}  // namespace dp::client
