#include "client/grpc_log.h"

#include <grpcpp/version_info.h>

#include <cstdlib>

// From 1.65 on, gRPC writes its messages by abseil's log.
#if GRPC_CPP_VERSION_MAJOR > 1 || GRPC_CPP_VERSION_MINOR >= 65
#include "absl/log/globals.h"
#else
#include <grpc/support/log.h>
#endif

namespace dp::client {
namespace {

void Silence() {
#if GRPC_CPP_VERSION_MAJOR > 1 || GRPC_CPP_VERSION_MINOR >= 65
  absl::SetMinLogLevel(absl::LogSeverityAtLeast::kFatal);
#else
  gpr_set_log_function([](gpr_log_func_args*) {});
#endif
}

}  // namespace

void SilenceGrpcLog() {
  if (std::getenv("GRPC_VERBOSITY") == nullptr) Silence();
}

}  // namespace dp::client
