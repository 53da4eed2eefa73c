#pragma once

#include "absl/status/statusor.h"
#include "dp/v1/store.grpc.pb.h"
#include "server/callers/store_callers.h"
#include "server/driver/driver.h"
#include "server/rpc/execute_messages.h"
#include "server/rpc/park_call.h"

namespace dp::server {

// Serves proto/dp/v1/store.proto through the driver. Thread-safe.
class StoreService final : public v1::Store::CallbackService {
 public:
  // Driver and callers outlive the service.
  StoreService(Driver& driver, StoreCallers& callers) : driver_(driver), callers_(callers) {
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

  // Errors: InvalidArgument the request cannot be awaited.
  absl::StatusOr<StoreWait> ToWait(const v1::AwaitRequest& request, v1::AwaitResponse* response);

  Driver& driver_;
  StoreCallers& callers_;  // used on the driver's thread
  ExecuteMessageAllocator execute_messages_;
};

}  // namespace dp::server
