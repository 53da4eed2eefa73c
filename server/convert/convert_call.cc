#include "server/convert/convert_call.h"

#include <algorithm>
#include <string>

namespace dp::server {

grpc::Status ToGrpc(const absl::Status& status) {
  // absl and gRPC number the codes alike.
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

absl::Duration BoundedWait(const google::protobuf::Duration& timeout) {
  return std::clamp(FromProto(timeout), absl::ZeroDuration(), kWaitMax);
}

v1::Exit ToProto(const core::Exit& exit) {
  v1::Exit proto;
  if (exit.how == core::Exit::How::kCode) {
    proto.set_code(exit.number);
  } else {
    proto.set_signal(exit.number);
  }
  return proto;
}

core::Exit FromProto(const v1::Exit& exit) {
  if (exit.how_case() == v1::Exit::kSignal) return {core::Exit::How::kSignal, exit.signal()};
  return {core::Exit::How::kCode, exit.code()};
}

v1::ResponseHeader HeaderOf(const View& view) {
  v1::ResponseHeader header;
  header.set_epoch(view.coordinator.epoch().value());
  header.set_revision(view.coordinator.revision().value());
  return header;
}

}  // namespace dp::server
