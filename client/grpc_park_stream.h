#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "client/async_store_connection.h"
#include "dp/v1/store.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace dp::client {

// A Park stream on a gRPC channel. Waits that begin or are cancelled while a message is in flight
// go into the next message. Made by the connection; keeps itself alive until it has ended.
// Thread-safe; reactions come on gRPC's threads.
class GrpcParkStream final : public AsyncStoreConnection::ParkStream,
                             public grpc::ClientBidiReactor<v1::ParkRequest, v1::ParkResponse>,
                             public std::enable_shared_from_this<GrpcParkStream> {
 public:
  template <typename Response>
  using Done = AsyncStoreConnection::Done<Response>;
  // Called once, when gRPC is done with the context; returns the status for the open waits.
  // `closed`: this side ended the stream.
  using OnEnd = std::function<absl::Status(grpc::ClientContext&, const grpc::Status&, bool closed)>;

  explicit GrpcParkStream(OnEnd on_end) : on_end_(std::move(on_end)) {}

  // To be set up before Start.
  grpc::ClientContext& context() { return context_; }
  void Start(v1::Store::Stub& stub) DP_EXCLUDES(mu_);

  std::shared_ptr<StoreLink::Call> Park(v1::AwaitRequest request,
                                        Done<v1::AwaitResponse> done) override DP_EXCLUDES(mu_);
  bool ended() const override DP_EXCLUDES(mu_);
  void Close() override DP_EXCLUDES(mu_);

 private:
  class Wait;
  struct Open {
    v1::AwaitRequest request;  // until it is sent
    Done<v1::AwaitResponse> done;
    bool sent = false;
  };
  using Told = std::pair<Done<v1::AwaitResponse>, absl::StatusOr<v1::AwaitResponse>>;

  void OnReadDone(bool ok) override DP_EXCLUDES(mu_);
  void OnWriteDone(bool ok) override DP_EXCLUDES(mu_);
  void OnDone(const grpc::Status& status) override DP_EXCLUDES(mu_);

  void Cancel(uint64_t id) DP_EXCLUDES(mu_);
  // Sends what there is to send, unless a message is in flight.
  void Write() DP_EXCLUDES(mu_);
  void FillRequest() DP_REQUIRES(mu_);
  std::vector<Told> TakeAnswers() DP_REQUIRES(mu_);

  const OnEnd on_end_;  // first, so that what it holds outlives the context
  grpc::ClientContext context_;
  v1::ParkRequest request_;    // of the write in flight
  v1::ParkResponse response_;  // of the read in flight, then of its reaction

  mutable Mutex mu_;
  CondVar changed_;
  std::shared_ptr<GrpcParkStream> self_ DP_GUARDED_BY(mu_);  // until it has ended
  absl::flat_hash_map<uint64_t, Open> open_ DP_GUARDED_BY(mu_);
  std::deque<uint64_t> unsent_ DP_GUARDED_BY(mu_);      // some may be cancelled by now
  std::vector<uint64_t> cancelled_ DP_GUARDED_BY(mu_);  // the coordinator does not know yet
  uint64_t last_id_ DP_GUARDED_BY(mu_) = 0;
  bool writing_ DP_GUARDED_BY(mu_) = false;
  bool broken_ DP_GUARDED_BY(mu_) = false;  // nothing is written any more
  bool closed_ DP_GUARDED_BY(mu_) = false;
  absl::Status end_ DP_GUARDED_BY(mu_);  // not OK: the stream has ended
  bool all_told_ DP_GUARDED_BY(mu_) = false;
};

}  // namespace dp::client
