#pragma once

#include <cstddef>
#include <memory>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/program/repeated_reason.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/support/server_interceptor.h"
#include "server/rpc/open_calls.h"

struct grpc_call;

namespace dp::server {

// Ends the calls that OpenCalls gives up. A client without a deadline, or one that does not read,
// therefore cannot hold a call and its answer for ever. Streams have bounds of their own
// (ParkCall), and are not watched. gRPC reports each call to an interceptor of the server.
//
// It has a thread of its own, which sleeps until a call may be overdue. It logs the first of such
// calls. Thread-safe. It must outlive the server.
class CallWatch {
 public:
  explicit CallWatch(const OpenCalls::Limits& limits);
  ~CallWatch();

  // For the builder of the server.
  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> Interceptors();

 private:
  class Watched;
  class Factory;

  OpenCalls::Id Begin(grpc_call* call) DP_EXCLUDES(mu_);
  void Answer(OpenCalls::Id id, size_t bytes) DP_EXCLUDES(mu_);
  void End(OpenCalls::Id id) DP_EXCLUDES(mu_);
  void Run() DP_EXCLUDES(mu_);
  // Blocks until calls must end, which it returns, each with a reference; empty: at the end.
  std::vector<grpc_call*> AwaitOverdue() DP_EXCLUDES(mu_);

  Mutex mu_;
  CondVar changed_;
  OpenCalls calls_ DP_GUARDED_BY(mu_);
  absl::flat_hash_map<OpenCalls::Id, grpc_call*> open_ DP_GUARDED_BY(mu_);  // not yet given up
  absl::Time look_at_ DP_GUARDED_BY(mu_) = absl::InfiniteFuture();
  bool stopped_ DP_GUARDED_BY(mu_) = false;
  RepeatedReason given_up_{"calls_given_up"};  // of the thread
  std::jthread thread_;                        // last: it uses the others
};

}  // namespace dp::server
