#pragma once

#include "absl/status/statusor.h"
#include "dp/v1/store.grpc.pb.h"
#include "server/shell/barrier_arrivals.h"
#include "server/shell/driver.h"
#include "server/shell/execute_messages.h"
#include "server/shell/park_call.h"

namespace dp::server {

// proto/dp/v1/store.proto over the driver. Thread-safe.
class StoreService final : public v1::Store::CallbackService {
 public:
  explicit StoreService(Driver& driver) : driver_(driver) {
    SetMessageAllocatorFor_Execute(&execute_messages_);
  }

  grpc::ServerUnaryReactor* Execute(grpc::CallbackServerContext* context,
                                    const v1::ExecuteRequest* request,
                                    v1::ExecuteResponse* response) override;
  grpc::ServerUnaryReactor* Await(grpc::CallbackServerContext* context,
                                  const v1::AwaitRequest* request,
                                  v1::AwaitResponse* response) override;
  grpc::ServerBidiReactor<v1::ParkRequest, v1::ParkResponse>* Park(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* ListWaiters(grpc::CallbackServerContext* context,
                                        const v1::ListWaitersRequest* request,
                                        v1::ListWaitersResponse* response) override;

 private:
  // One await, on the driver's thread.
  class ParkedAwait;

  // Errors: InvalidArgument it cannot be awaited.
  absl::StatusOr<StoreWait> ToWait(const v1::AwaitRequest& request, v1::AwaitResponse* response);

  Driver& driver_;
  ExecuteMessageAllocator execute_messages_;
  BarrierArrivals arrivals_;  // of the driver's thread
};

}  // namespace dp::server
