#include "client/grpc_store_link.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "client/long_poll.h"
#include "proto/convert/store_operations.h"
#include "proto/convert/time.h"

namespace dp::client {
namespace {

absl::StatusOr<RelayLedger::Reply> ToReply(absl::StatusOr<v1::ExecuteResponse> response) {
  if (!response.ok()) return response.status();
  RelayLedger::Reply reply{ResultsFromProto(std::move(*response->mutable_results())), {}};
  for (const v1::RefusedGroup& refused : response->refused()) {
    const auto code = static_cast<absl::StatusCode>(refused.code());
    reply.refusals.push_back({refused.group(), absl::Status(code, refused.message())});
  }
  return reply;
}

AsyncStore::Results ToResults(absl::StatusOr<v1::AwaitResponse> response) {
  if (!response.ok()) return response.status();
  return ResultsFromProto(std::move(*response->mutable_results()));
}

}  // namespace

GrpcStoreLink::GrpcStoreLink(AsyncStoreConnection& connection, Options options)
    : connection_(connection), options_(std::move(options)) {
  DP_CHECK(options_.incarnation != 0);
}

std::shared_ptr<StoreLink::Call> GrpcStoreLink::Execute(const RelayLedger::Batch& batch,
                                                        Done<RelayLedger::Reply> done) {
  v1::ExecuteRequest request;
  request.set_job(options_.job.value());
  request.set_generation(options_.generation.value());
  if (batch.sequence != 0) {
    request.set_client(options_.incarnation);
    request.set_sequence(batch.sequence);
  }
  OperationsToProto(batch.operations, request.mutable_operations());
  request.mutable_groups()->Add(batch.groups.begin(), batch.groups.end());
  return connection_.StartExecute(
      std::move(request), options_.attempt,
      [done = std::move(done)](absl::StatusOr<v1::ExecuteResponse> response) mutable {
        std::move(done)(ToReply(std::move(response)));
      });
}

std::shared_ptr<StoreLink::Call> GrpcStoreLink::Await(const std::vector<StoreOperation>& reads,
                                                      const Waiter& waiter,
                                                      Done<std::vector<StoreResult>> done) {
  v1::AwaitRequest request;
  request.set_job(options_.job.value());
  request.set_generation(options_.generation.value());
  request.set_who(absl::StrCat(waiter.rank ? absl::StrCat("rank ", *waiter.rank) : "a rank", " on ",
                               options_.worker));
  if (waiter.rank) request.set_rank(*waiter.rank);
  request.set_each(true);
  *request.mutable_timeout() = ToProto(options_.parking);
  *request.mutable_waited() = ToProto(waiter.waited);
  OperationsToProto(reads, request.mutable_reads());
  return connection_.StartAwait(
      std::move(request), options_.parking + kAnswerSlack,
      [done = std::move(done)](absl::StatusOr<v1::AwaitResponse> response) mutable {
        std::move(done)(ToResults(std::move(response)));
      });
}

}  // namespace dp::client
