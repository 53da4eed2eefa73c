#include "client/grpc_store.h"

#include <map>
#include <memory>
#include <utility>

#include "client/testing/in_process.h"
#include "dp/v1/store.grpc.pb.h"
#include "proto/convert/store_operations.h"
#include "proto/convert/time.h"
#include "store/hash_store.h"
#include "store/testing/store_conformance.h"

namespace dp::client {
namespace {

// The coordinator's store behind a bad network, which loses every third request on its way there
// and every third answer on its way back. A repeated change gets its first answer, as
// proto/dp/v1/store.proto promises.
class LossyStore final : public v1::Store::Service {
 public:
  grpc::Status Execute(grpc::ServerContext*, const v1::ExecuteRequest* request,
                       v1::ExecuteResponse* response) override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (++calls_ % 3 == 0) return {grpc::StatusCode::UNAVAILABLE, "request lost"};
    absl::StatusOr<v1::ExecuteResponse> answer = Answer(*request);
    if (calls_ % 3 == 1 && answer.ok()) return {grpc::StatusCode::UNAVAILABLE, "answer lost"};
    return ToGrpc(std::move(answer), response);
  }

  grpc::Status Await(grpc::ServerContext*, const v1::AwaitRequest* request,
                     v1::AwaitResponse* response) override {
    auto reads = OperationsFromProto(request->reads());
    if (!reads.ok()) return ToGrpc(reads.status());
    // A poll may end early, as at a busy coordinator.
    const absl::Duration poll = std::min(FromProto(request->timeout()), absl::Milliseconds(20));
    auto results = store_.Await(*reads, poll);
    if (results.ok()) ResultsToProto(*results, response->mutable_results());
    return ToGrpc(results.status());
  }

 private:
  absl::StatusOr<v1::ExecuteResponse> Answer(const v1::ExecuteRequest& request) DP_REQUIRES(mu_) {
    const std::pair<uint64_t, uint64_t> key{request.client(), request.sequence()};
    if (key.first != 0 && answers_.contains(key)) return answers_[key];
    auto operations = OperationsFromProto(request.operations());
    if (!operations.ok()) return operations.status();
    auto results = store_.Execute(*operations);
    if (!results.ok()) return results.status();
    v1::ExecuteResponse response;
    ResultsToProto(*results, response.mutable_results());
    if (key.first != 0) answers_[key] = response;
    return response;
  }

  HashStore store_;
  Mutex mu_;
  int calls_ DP_GUARDED_BY(mu_) = 0;
  std::map<std::pair<uint64_t, uint64_t>, v1::ExecuteResponse> answers_ DP_GUARDED_BY(mu_);
};

constexpr RetryOptions kQuick{
    .deadline = absl::Seconds(30),
    .backoff = {.initial = absl::Microseconds(10), .max = absl::Microseconds(100)}};

// A GrpcStore and what it borrows.
class StoreOverLossyNetwork final : public Store {
 public:
  absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) override {
    return store_.Execute(operations);
  }
  absl::StatusOr<std::vector<StoreResult>> Await(absl::Span<const StoreOperation> reads,
                                                 absl::Duration timeout) override {
    return store_.Await(reads, timeout);
  }

 private:
  LossyStore lossy_;
  InProcess server_{lossy_};
  const std::unique_ptr<Connection> connection_ = server_.Connect();
  Pause pause_;
  GrpcStore store_{*connection_, pause_, {JobId(7), Generation(1), kQuick}};
};

INSTANTIATE_TEST_SUITE_P(GrpcStore, StoreConformance, ::testing::Values([] {
                           return std::make_unique<StoreOverLossyNetwork>();
                         }));
INSTANTIATE_TEST_SUITE_P(GrpcStore, StoreAppendConformance, ::testing::Values([] {
                           return std::make_unique<StoreOverLossyNetwork>();
                         }));
INSTANTIATE_TEST_SUITE_P(GrpcStore, StoreLaterVerbsConformance, ::testing::Values([] {
                           return std::make_unique<StoreOverLossyNetwork>();
                         }));
INSTANTIATE_TEST_SUITE_P(GrpcStore, StoreBatchConformance, ::testing::Values([] {
                           return std::make_unique<StoreOverLossyNetwork>();
                         }));

// A coordinator that is out of reach.
class NoCoordinator final : public v1::Store::Service {
 public:
  std::unique_ptr<Connection> Connect() { return server_.Connect(); }

 private:
  grpc::Status Execute(grpc::ServerContext*, const v1::ExecuteRequest*,
                       v1::ExecuteResponse*) override {
    return {grpc::StatusCode::UNAVAILABLE, "connection refused"};
  }
  grpc::Status Await(grpc::ServerContext*, const v1::AwaitRequest*, v1::AwaitResponse*) override {
    return {grpc::StatusCode::UNAVAILABLE, "connection refused"};
  }

  InProcess server_{static_cast<v1::Store::Service&>(*this)};
};

TEST(GrpcStoreTest, AnUnreachableCoordinatorShowsAfterTheDeadline) {
  NoCoordinator nobody;
  const auto connection = nobody.Connect();
  Pause pause;
  GrpcStore store(
      *connection, pause,
      {JobId(7), Generation(1), {.deadline = absl::Milliseconds(5), .backoff = kQuick.backoff}});
  EXPECT_EQ(store.Set("k", "v").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(store.Get("k", absl::ZeroDuration()).status().code(), absl::StatusCode::kUnavailable);
}

TEST(GrpcStoreTest, AShutdownEndsTheRetries) {
  NoCoordinator nobody;
  const auto connection = nobody.Connect();
  Pause pause;
  GrpcStore store(*connection, pause, {JobId(7), Generation(1), {.deadline = absl::Hours(1)}});
  pause.Stop();
  EXPECT_EQ(store.Set("k", "v").code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(store.Get("k", absl::Hours(1)).status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace dp::client
