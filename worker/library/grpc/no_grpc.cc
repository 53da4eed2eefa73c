#include "worker/library/grpc_module.h"

namespace dp::library {

absl::StatusOr<std::unique_ptr<Store>> ConnectGrpc(const GrpcPlace&) {
  return absl::UnimplementedError("built without gRPC");
}

}  // namespace dp::library
