#pragma once

#include <string>

#include "client/connection.h"
#include "dp/v1/checkpoints.grpc.pb.h"
#include "dp/v1/logs.grpc.pb.h"
#include "dp/v1/workers.grpc.pb.h"
#include "dp/v1/worlds.grpc.pb.h"

namespace dp::client {

// A connection for callers that still use an interface of one service.
class GrpcConnection final : public Connection,
                             public WorkersConnection,
                             public WorldsConnection,
                             public LogsConnection,
                             public CheckpointsConnection {
 public:
  using Connection::Connection;

  absl::StatusOr<v1::RegisterResponse> Register(const v1::RegisterRequest& request,
                                                absl::Duration deadline_in) override {
    return Call(&v1::Workers::Stub::Register, request, deadline_in);
  }
  absl::StatusOr<v1::HeartbeatResponse> Heartbeat(const v1::HeartbeatRequest& request,
                                                  absl::Duration deadline_in) override {
    return Call(&v1::Workers::Stub::Heartbeat, request, deadline_in);
  }
  absl::StatusOr<v1::WatchAssignmentResponse> WatchAssignment(
      const v1::WatchAssignmentRequest& request, absl::Duration deadline_in) override {
    return Call(&v1::Workers::Stub::WatchAssignment, request, deadline_in);
  }
  absl::StatusOr<v1::ReportRankResponse> ReportRank(const v1::ReportRankRequest& request,
                                                    absl::Duration deadline_in) override {
    return Call(&v1::Workers::Stub::ReportRank, request, deadline_in);
  }
  absl::StatusOr<v1::ReportSlotsResponse> ReportSlots(const v1::ReportSlotsRequest& request,
                                                      absl::Duration deadline_in) override {
    return Call(&v1::Workers::Stub::ReportSlots, request, deadline_in);
  }
  absl::StatusOr<v1::ListWorkersResponse> ListWorkers(const v1::ListWorkersRequest& request,
                                                      absl::Duration deadline_in) override {
    return Call(&v1::Workers::Stub::List, request, deadline_in);
  }
  absl::StatusOr<v1::DrainResponse> Drain(const v1::DrainRequest& request,
                                          absl::Duration deadline_in) override {
    return Call(&v1::Workers::Stub::Drain, request, deadline_in);
  }
  absl::StatusOr<v1::UndrainResponse> Undrain(const v1::UndrainRequest& request,
                                              absl::Duration deadline_in) override {
    return Call(&v1::Workers::Stub::Undrain, request, deadline_in);
  }
  absl::StatusOr<v1::WatchWorkersResponse> WatchWorkers(const v1::WatchWorkersRequest& request,
                                                        absl::Duration deadline_in) override {
    return Call(&v1::Workers::Stub::Watch, request, deadline_in);
  }
  absl::StatusOr<v1::JoinResponse> Join(const v1::JoinRequest& request,
                                        absl::Duration deadline_in) override {
    return Call(&v1::Worlds::Stub::Join, request, deadline_in);
  }
  absl::StatusOr<v1::WatchWorldResponse> WatchWorld(const v1::WatchWorldRequest& request,
                                                    absl::Duration deadline_in) override {
    return Call(&v1::Worlds::Stub::Watch, request, deadline_in);
  }
  absl::StatusOr<v1::CompleteFirstStepResponse> CompleteFirstStep(
      const v1::CompleteFirstStepRequest& request, absl::Duration deadline_in) override {
    return Call(&v1::Worlds::Stub::CompleteFirstStep, request, deadline_in);
  }
  absl::StatusOr<v1::AccuseResponse> Accuse(const v1::AccuseRequest& request,
                                            absl::Duration deadline_in) override {
    return Call(&v1::Worlds::Stub::Accuse, request, deadline_in);
  }
  absl::StatusOr<v1::AppendLogsResponse> AppendLogs(const v1::AppendLogsRequest& request,
                                                    absl::Duration deadline_in) override {
    return Call(&v1::Logs::Stub::Append, request, deadline_in);
  }
  absl::StatusOr<v1::ReadLogsResponse> ReadLogs(const v1::ReadLogsRequest& request,
                                                absl::Duration deadline_in) override {
    return Call(&v1::Logs::Stub::Read, request, deadline_in);
  }
  absl::StatusOr<v1::RegisterCheckpointResponse> RegisterCheckpoint(
      const v1::RegisterCheckpointRequest& request, absl::Duration deadline_in) override {
    return Call(&v1::Checkpoints::Stub::Register, request, deadline_in);
  }
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(
      const v1::ListCheckpointsRequest& request, absl::Duration deadline_in) override {
    return Call(&v1::Checkpoints::Stub::List, request, deadline_in);
  }
  absl::StatusOr<v1::RegisterWeightsResponse> RegisterWeights(
      const v1::RegisterWeightsRequest& request, absl::Duration deadline_in) override {
    return Call(&v1::Checkpoints::Stub::RegisterWeights, request, deadline_in);
  }
};

}  // namespace dp::client
