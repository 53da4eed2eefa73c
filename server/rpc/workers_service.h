#pragma once

#include <string>
#include <utility>

#include "dp/v1/workers.grpc.pb.h"
#include "server/callers/client_table.h"
#include "server/driver/driver.h"
#include "server/rpc/gpu_table.h"

namespace dp::server {

// Serves proto/dp/v1/workers.proto through the driver. Thread-safe.
class WorkersService final : public v1::Workers::CallbackService {
 public:
  // `store_host` is where ranks find stores that the coordinator serves; empty: where their worker
  // finds the coordinator. Driver and table outlive the service.
  WorkersService(Driver& driver, ClientTable& clients, std::string store_host)
      : driver_(driver), clients_(clients), store_host_(std::move(store_host)) {}

  grpc::ServerUnaryReactor* Register(grpc::CallbackServerContext* context,
                                     const v1::RegisterRequest* request,
                                     v1::RegisterResponse* response) override;
  grpc::ServerUnaryReactor* Heartbeat(grpc::CallbackServerContext* context,
                                      const v1::HeartbeatRequest* request,
                                      v1::HeartbeatResponse* response) override;
  grpc::ServerUnaryReactor* WatchAssignment(grpc::CallbackServerContext* context,
                                            const v1::WatchAssignmentRequest* request,
                                            v1::WatchAssignmentResponse* response) override;
  grpc::ServerUnaryReactor* ReportRank(grpc::CallbackServerContext* context,
                                       const v1::ReportRankRequest* request,
                                       v1::ReportRankResponse* response) override;
  grpc::ServerUnaryReactor* ReportSlots(grpc::CallbackServerContext* context,
                                        const v1::ReportSlotsRequest* request,
                                        v1::ReportSlotsResponse* response) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListWorkersRequest* request,
                                 v1::ListWorkersResponse* response) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest* request,
                                  v1::DrainResponse* response) override;
  grpc::ServerUnaryReactor* Undrain(grpc::CallbackServerContext* context,
                                    const v1::UndrainRequest* request,
                                    v1::UndrainResponse* response) override;
  grpc::ServerUnaryReactor* Watch(grpc::CallbackServerContext* context,
                                  const v1::WatchWorkersRequest* request,
                                  v1::WatchWorkersResponse* response) override;

 private:
  void BeatInTurn(const v1::HeartbeatRequest& request, v1::HeartbeatResponse* response,
                  grpc::ServerUnaryReactor* reactor);
  // Notes the GPUs and connections of a heartbeat that renewed a lease. Any thread.
  void NoteNews(const v1::HeartbeatRequest& request);

  Driver& driver_;
  ClientTable& clients_;
  const std::string store_host_;
  GpuTable gpus_;
};

}  // namespace dp::server
