#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "dp/v1/jobs.pb.h"
#include "grpcpp/support/status.h"
#include "proto/convert/time.h"
#include "server/core/command.h"
#include "server/driver/driver.h"

// Converts the parts that every call has: status, header, bounded wait; and exits of processes.
// Pure; any thread.

namespace dp::server {

// The longest wait of one call. Clients ask again, so a client that went away unnoticed holds no
// call for longer.
inline constexpr absl::Duration kWaitMax = absl::Seconds(60);

grpc::Status ToGrpc(const absl::Status& status);

// Makes the overloads for times visible, which the overloads of this namespace would hide.
using dp::FromProto;
using dp::ToProto;
// The wait that the call asks for, bounded to between zero and kWaitMax.
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
