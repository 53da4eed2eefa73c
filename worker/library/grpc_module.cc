#include "worker/library/grpc_module.h"

namespace dp::library {

extern "C" ConnectGrpcInModule dp_connect_grpc;

void dp_connect_grpc(const GrpcPlace& place, absl::StatusOr<std::unique_ptr<Store>>& store) {
  store = ConnectGrpc(place);
}

}  // namespace dp::library
