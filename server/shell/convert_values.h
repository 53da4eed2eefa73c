#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "dp/v1/jobs.pb.h"
#include "grpcpp/support/status.h"
#include "proto/convert/time.h"
#include "server/core/command.h"
#include "server/shell/driver.h"

// Small values between the wire and the core. Pure; any thread.

namespace dp::server {

// How long one call may wait at most. Clients ask again; what went away unseen is noticed then.
inline constexpr absl::Duration kWaitMax = absl::Seconds(60);

grpc::Status ToGrpc(const absl::Status& status);

// Beside the overloads of this folder, which would hide those for times.
using dp::FromProto;
using dp::ToProto;
// How long a call waits: what it asks for, between zero and kWaitMax.
absl::Duration BoundedWait(const google::protobuf::Duration& timeout);

v1::Exit ToProto(const core::Exit& exit);
core::Exit FromProto(const v1::Exit& exit);

v1::ResponseHeader HeaderOf(const View& view);

template <typename Response>
void SetHeader(Epoch epoch, Revision revision, Response* response) {
  response->mutable_header()->set_epoch(epoch.value());
  response->mutable_header()->set_revision(revision.value());
}
template <typename Response>
void SetHeader(const View& view, Response* response) {
  *response->mutable_header() = HeaderOf(view);
}

}  // namespace dp::server
