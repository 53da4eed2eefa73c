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

// A rank that is still unknown after this many parkings stays unknown.
constexpr int kUnknownFor = 3;

AsyncStore::Results ToResults(absl::StatusOr<v1::AwaitResponse> response) {
  if (!response.ok()) return response.status();
  return ResultsFromProto(std::move(*response->mutable_results()));
}

}  // namespace

GrpcStoreLink::GrpcStoreLink(AsyncStoreConnection& connection, Options options)
    : connection_(connection), options_(std::move(options)) {
  DP_CHECK(options_.incarnation != 0);
}

GrpcStoreLink::~GrpcStoreLink() {
  std::shared_ptr<ParkStream> stream;
  {
    MutexLock lock(mu_);
    stream = std::move(stream_);
  }
  if (stream != nullptr) stream->Close();
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

void GrpcStoreLink::Name(const std::string& peer, v1::AwaitRequest& request) const {
  const auto rank = options_.rank_at ? options_.rank_at(peer) : std::nullopt;
  if (rank.has_value()) {
    request.set_rank(*rank);
    request.set_who(absl::StrCat("rank ", *rank, " on ", options_.worker));
  } else if (options_.for_other_hosts) {
    request.set_who("a rank");
    request.set_peer(peer);
  } else {
    request.set_who(absl::StrCat("a rank on ", options_.worker));
  }
}

std::shared_ptr<StoreLink::Call> GrpcStoreLink::Await(const std::vector<StoreOperation>& reads,
                                                      const Waiter& waiter,
                                                      Done<std::vector<StoreResult>> done) {
  v1::AwaitRequest request = ToRequest(reads, waiter);
  AwaitDone tell = [done = std::move(done)](absl::StatusOr<v1::AwaitResponse> response) mutable {
    std::move(done)(ToResults(std::move(response)));
  };
  const std::shared_ptr<ParkStream> stream = Stream();
  if (stream == nullptr) return AwaitAlone(std::move(request), std::move(tell));
  if (MoreMayBeKnown(request, waiter)) *request.mutable_timeout() = ToProto(options_.parking);
  return Park(*stream, std::move(request), std::move(tell));
}

v1::AwaitRequest GrpcStoreLink::ToRequest(const std::vector<StoreOperation>& reads,
                                          const Waiter& waiter) const {
  v1::AwaitRequest request;
  request.set_job(options_.job.value());
  request.set_generation(options_.generation.value());
  Name(waiter.peer, request);
  request.set_each(true);
  *request.mutable_waited() = ToProto(waiter.waited);
  OperationsToProto(reads, request.mutable_reads());
  return request;
}

bool GrpcStoreLink::MoreMayBeKnown(const v1::AwaitRequest& request, const Waiter& waiter) const {
  return options_.rank_at && !request.has_rank() && waiter.waited < kUnknownFor * options_.parking;
}

std::shared_ptr<GrpcStoreLink::ParkStream> GrpcStoreLink::Stream() {
  if (*older_) return nullptr;
  {
    MutexLock lock(mu_);
    if (stream_ != nullptr && !stream_->ended()) return stream_;
  }
  const std::shared_ptr<ParkStream> opened = connection_.OpenPark();
  std::shared_ptr<ParkStream> first;
  {
    MutexLock lock(mu_);
    if (stream_ == nullptr || stream_->ended()) stream_ = opened;
    first = stream_;
  }
  // Another thread was faster.
  if (first != opened) opened->Close();
  return first;
}

std::shared_ptr<StoreLink::Call> GrpcStoreLink::Park(ParkStream& stream, v1::AwaitRequest request,
                                                     AwaitDone done) {
  AwaitDone tell = [older = older_, done = std::move(done)](auto response) mutable {
    if (absl::IsUnimplemented(response.status())) {
      *older = true;
      response = absl::UnavailableError("the coordinator is of an older release");
    }
    std::move(done)(std::move(response));
  };
  return stream.Park(std::move(request), std::move(tell));
}

std::shared_ptr<StoreLink::Call> GrpcStoreLink::AwaitAlone(v1::AwaitRequest request,
                                                           AwaitDone done) {
  *request.mutable_timeout() = ToProto(options_.parking);
  return connection_.StartAwait(std::move(request), options_.parking + kAnswerSlack,
                                [older = older_, done = std::move(done)](auto response) mutable {
                                  // The next coordinator may be of another release.
                                  if (absl::IsUnavailable(response.status())) *older = false;
                                  std::move(done)(std::move(response));
                                });
}

}  // namespace dp::client
