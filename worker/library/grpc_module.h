#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/id.h"
#include "store/store.h"

namespace dp::library {

// A store of the coordinator, and the caller's proof.
struct GrpcPlace {
  std::string coordinator;  // host:port
  JobId job;
  Generation generation;
  int rank = -1;            // the caller's in this job; -1: it is none of its ranks
  std::string credentials;  // a directory; empty: look for a login
  bool in_plain_text = false;
  bool accept_other_users = false;
  absl::Duration patience = absl::Seconds(30);  // of the first call
};

// Calls the coordinator once, so that a wrong place is an error here. The store must be used and
// destroyed in the process that has opened it; in a fork of this process its verbs are errors.
// Errors: Unimplemented this build, or this host, has no gRPC. NotFound unknown job.
// FailedPrecondition the generation is over, or this process is such a fork. PermissionDenied and
// Unauthenticated the coordinator refuses the caller. Unavailable nobody answers.
absl::StatusOr<std::unique_ptr<Store>> ConnectGrpc(const GrpcPlace& place);

// ConnectGrpc as the module exports it, with its result written to `store`. Both sides are of one
// build, which the module's name states.
using ConnectGrpcInModule = void(const GrpcPlace& place,
                                 absl::StatusOr<std::unique_ptr<Store>>& store);
inline constexpr char kConnectGrpcInModule[] = "dp_connect_grpc";

}  // namespace dp::library
