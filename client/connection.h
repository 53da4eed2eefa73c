#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/async_store_connection.h"
#include "client/credentials.h"

// Forward declarations keep gRPC's headers out of files that only pass a connection on. A caller of
// an RPC includes the header of its service, such as dp/v1/jobs.grpc.pb.h.
namespace grpc {
class Channel;
class ChannelInterface;
class ClientContext;
class Status;
template <class R>
class ClientReader;
template <class W>
class ClientWriter;
}  // namespace grpc

namespace dp::client {

// A separate connection to the coordinator at `address` (host:port). It connects at the first call,
// reconnects within about a second of a restart, and notices a peer that vanished.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const Credentials& credentials);

// A blocking RPC of a service, as gRPC generates it: &v1::Jobs::Stub::Submit.
template <typename Stub, typename Request, typename Response>
using Rpc = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);

// The same where the client streams messages, and where the server does.
template <typename Stub, typename Request, typename Response>
using UploadRpc = std::unique_ptr<grpc::ClientWriter<Request>> (Stub::*)(grpc::ClientContext*,
                                                                         Response*);
template <typename Stub, typename Request, typename Response>
using DownloadRpc = std::unique_ptr<grpc::ClientReader<Response>> (Stub::*)(grpc::ClientContext*,
                                                                            const Request&);

// A connection to the coordinator: every RPC of every service, over one gRPC channel. Thread-safe.
// The owner must not destroy it while calls are in flight; CancelAll ends them first. The
// destructor waits until gRPC's threads have let go of calls that have ended, so it must not run on
// one of these threads.
class Connection : public AsyncStoreConnection {
 public:
  // `address` is host:port. Connects lazily; an unreachable coordinator gives Unavailable. Without
  // credentials every blocking call gives the error that says why.
  Connection(const std::string& address, const Credentials& credentials);
  ~Connection() override;

  // Why there are no credentials, and no call is made; OK: there are some.
  const absl::Status& credentials_status() const { return no_credentials_; }

  // Another connection over the same socket, which CancelAll of this one does not concern. A
  // handshake of TLS costs both sides milliseconds of processor time.
  std::unique_ptr<Connection> Share() const;

  // One attempt of one RPC. Blocks until the answer, or until `deadline_in` has passed. RetryLoop
  // (retry_loop.h) does the retries.
  //     connection.Call(&v1::Jobs::Stub::Submit, request, absl::Seconds(5));
  // Errors: those of the RPC (proto/dp/v1); Unavailable when the coordinator cannot be reached;
  // DeadlineExceeded; Cancelled after CancelAll. Errors of calls that connected to nothing have the
  // mark of absence.h.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(Rpc<Stub, Request, Response> rpc,
                                const std::type_identity_t<Request>& request,
                                absl::Duration deadline_in) {
    Stub stub(stub_channel_);  // costs microseconds
    Response response;
    const absl::Status status = Attempt(deadline_in, [&](grpc::ClientContext& context) {
      return (stub.*rpc)(&context, request, &response);
    });
    if (!status.ok()) return status;
    return response;
  }

  // One attempt of an RPC that streams. `next` fills in the next message, and returns false at the
  // end. The server may answer before. Errors: as Call.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Upload(UploadRpc<Stub, Request, Response> rpc,
                                  absl::FunctionRef<bool(Request&)> next,
                                  absl::Duration deadline_in) {
    Stub stub(stub_channel_);
    Response response;
    const absl::Status status = Attempt(deadline_in, [&](grpc::ClientContext& context) {
      const auto writer = (stub.*rpc)(&context, &response);
      Request message;
      while (next(message) && writer->Write(message)) {
      }
      writer->WritesDone();
      return writer->Finish();
    });
    if (!status.ok()) return status;
    return response;
  }
  // `take` gets each message. Its error ends the call, and is returned. Errors: as Call.
  template <typename Stub, typename Request, typename Response>
  absl::Status Download(DownloadRpc<Stub, Request, Response> rpc,
                        const std::type_identity_t<Request>& request,
                        absl::FunctionRef<absl::Status(Response&)> take,
                        absl::Duration deadline_in) {
    Stub stub(stub_channel_);
    absl::Status taken;
    const absl::Status status = Attempt(deadline_in, [&](grpc::ClientContext& context) {
      const auto reader = (stub.*rpc)(&context, request);
      Response message;
      while (taken.ok() && reader->Read(&message)) taken = take(message);
      if (!taken.ok()) GiveUp(context);
      return reader->Finish();
    });
    return taken.ok() ? status : taken;
  }

  // Ends every call in flight, and every later one, with Cancelled. Any thread; idempotent.
  void CancelAll() DP_EXCLUDES(mu_);

  std::shared_ptr<StoreLink::Call> StartExecute(v1::ExecuteRequest request,
                                                absl::Duration deadline_in,
                                                Done<v1::ExecuteResponse> done) override;
  std::shared_ptr<StoreLink::Call> StartAwait(v1::AwaitRequest request, absl::Duration deadline_in,
                                              Done<v1::AwaitResponse> done) override;
  std::shared_ptr<ParkStream> OpenPark() override;

 protected:
  // Over this channel; errors name the `address`. The `token` goes with each call; empty: none.
  Connection(std::string address, std::shared_ptr<grpc::Channel> channel, std::string token = "");

 private:
  struct StoreStub;
  // One attempt of one RPC of the store, with a callback.
  template <typename Request, typename Response>
  struct AsyncCall;
  // A call that has begun; `done` follows.
  template <typename Request, typename Response>
  std::shared_ptr<AsyncCall<Request, Response>> BeginAsync(Request request,
                                                           absl::Duration deadline_in,
                                                           Done<Response> done);
  template <typename Started>
  static std::shared_ptr<StoreLink::Call> HandleOf(const std::shared_ptr<Started>& call);
  // The callback for gRPC at the end of the call.
  template <typename Started>
  std::function<void(grpc::Status)> EndOf(std::shared_ptr<Started> call);

  // Makes a blocking call with a context of its own that CancelAll can reach.
  absl::Status Attempt(absl::Duration deadline_in,
                       absl::FunctionRef<grpc::Status(grpc::ClientContext&)> call);
  static void GiveUp(grpc::ClientContext& context);
  // Sets the deadline of a blocking call, and gives the channel time to connect. A double whose
  // clock is not the system's overrides it (testing/in_process.h).
  virtual void Prepare(grpc::ClientContext& context, absl::Duration deadline_in);
  // Keeps the destructor waiting. A context shares the channel. If a thread of gRPC's released the
  // last share, gRPC 1.51 would wait there for that thread's own end.
  std::shared_ptr<void> Hold() DP_EXCLUDES(mu_);
  void Begin(grpc::ClientContext& context) DP_EXCLUDES(mu_);
  void End(grpc::ClientContext& context) DP_EXCLUDES(mu_);
  void AwaitConnected(absl::Duration deadline_in);
  void AddToken(grpc::ClientContext& context) const;
  // `cancelled_here`: this side has cancelled the call, or all calls.
  absl::Status ToAbsl(const grpc::ClientContext& context, const grpc::Status& status,
                      bool cancelled_here) const;
  // Whether a call that failed for lack of an answer had no connection, and no server to blame.
  bool IsUnconnected(const grpc::Status& status) const;
  bool all_cancelled() const DP_EXCLUDES(mu_);

  const std::string address_;
  const std::string token_;
  absl::Status no_credentials_;  // OK: there are some
  const std::shared_ptr<grpc::Channel> channel_;
  const std::shared_ptr<grpc::ChannelInterface> stub_channel_;  // the same
  const std::unique_ptr<StoreStub> store_;                      // of the asynchronous calls

  mutable Mutex mu_;
  CondVar changed_;
  int holds_ DP_GUARDED_BY(mu_) = 0;
  absl::flat_hash_set<grpc::ClientContext*> under_way_ DP_GUARDED_BY(mu_);
  bool cancelled_ DP_GUARDED_BY(mu_) = false;
};

}  // namespace dp::client
