#include "client/grpc_store.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/random.h"
#include "base/status.h"
#include "client/long_poll.h"
#include "client/retry_loop.h"
#include "dp/v1/store.grpc.pb.h"
#include "proto/convert/store_operations.h"
#include "proto/convert/time.h"

namespace dp::client {
namespace {

absl::StatusOr<std::vector<StoreResult>> Checked(StoreResultProtos&& results, size_t wanted) {
  if (results.size() == static_cast<int>(wanted)) return ResultsFromProto(std::move(results));
  return absl::InternalError(
      absl::StrCat("store answered ", results.size(), " results to ", wanted, " operations"));
}

// Replaces gRPC's error about a message that is too large by one that names the batch.
absl::Status Explain(const google::protobuf::Message& request, const absl::Status& status) {
  const size_t bytes = request.ByteSizeLong();
  if (!absl::IsResourceExhausted(status) || bytes <= kMessageBytesMax) return status;
  return absl::ResourceExhaustedError(absl::StrCat("a batch of store operations takes ", bytes,
                                                   " bytes, and a message has ", kMessageBytesMax,
                                                   " at most; send it in several"));
}

// The coordinator knows how long a poll lasted, and not the wait of which it is the last.
absl::Status WithWaited(const absl::Status& status, absl::Duration waited) {
  constexpr std::string_view kMissing = "still missing: ";
  std::string message(status.message());
  const size_t found = message.find(kMissing);
  if (found == message.npos) return status;
  message.replace(found, kMissing.size(),
                  absl::StrCat("still missing after ", absl::FormatDuration(waited), ": "));
  return absl::Status(status.code(), message);
}

}  // namespace

GrpcStore::GrpcStore(Connection& connection, Pause& pause, GrpcStoreOptions options,
                     const Clock& clock)
    : connection_(connection),
      pause_(pause),
      options_(std::move(options)),
      clock_(clock),
      client_(EntropySeed() | 1) {}  // zero means a read

absl::StatusOr<std::vector<StoreResult>> GrpcStore::Execute(
    absl::Span<const StoreOperation> operations) {
  v1::ExecuteRequest request;
  request.set_job(options_.job.value());
  request.set_generation(options_.generation.value());
  OperationsToProto(operations, request.mutable_operations());
  const bool changes = !std::all_of(operations.begin(), operations.end(), IsRead);
  if (changes) {
    request.set_client(client_);
    request.set_sequence(BeginChange());
  }
  absl::StatusOr<v1::ExecuteResponse> response = Send(request);
  if (changes) EndChange();
  if (!response.ok()) return Explain(request, response.status());
  return Checked(std::move(*response->mutable_results()), operations.size());
}

absl::StatusOr<v1::ExecuteResponse> GrpcStore::Send(const v1::ExecuteRequest& request) {
  return RetryLoop(RetryPolicy(options_.retry, EntropySeed()), clock_, pause_,
                   [&](absl::Duration deadline_in) {
                     return connection_.Call(&v1::Store::Stub::Execute, request, deadline_in);
                   });
}

absl::StatusOr<std::vector<StoreResult>> GrpcStore::Await(absl::Span<const StoreOperation> reads,
                                                          absl::Duration timeout) {
  v1::AwaitRequest request;
  request.set_job(options_.job.value());
  request.set_generation(options_.generation.value());
  OperationsToProto(reads, request.mutable_reads());
  request.set_who(options_.caller.name);
  if (options_.caller.rank >= 0) request.set_rank(options_.caller.rank);
  const absl::Time began = clock_.Now();
  const absl::Time until = began + timeout;
  while (true) {
    *request.mutable_waited() = ToProto(clock_.Now() - began);
    absl::StatusOr<v1::AwaitResponse> response = Poll(request, until);
    if (response.ok()) return Checked(std::move(*response->mutable_results()), reads.size());
    if (!absl::IsDeadlineExceeded(response.status())) return Explain(request, response.status());
    if (clock_.Now() >= until) return WithWaited(response.status(), timeout);
  }
}

absl::StatusOr<v1::AwaitResponse> GrpcStore::Poll(v1::AwaitRequest& request, absl::Time until) {
  RetryOptions options = options_.retry;
  options.deadline = std::max(until - clock_.Now(), options_.retry.deadline);
  options.retry_deadline_exceeded = false;  // the coordinator's answer that keys are missing
  return RetryLoop(RetryPolicy(options, EntropySeed()), clock_, pause_, [&](absl::Duration) {
    const absl::Duration poll =
        std::clamp(until - clock_.Now(), absl::ZeroDuration(), absl::Duration(kLongPoll));
    *request.mutable_timeout() = ToProto(poll);
    return connection_.Call(&v1::Store::Stub::Await, request, poll + kAnswerSlack);
  });
}

uint64_t GrpcStore::BeginChange() {
  MutexLock lock(mu_);
  while (changing_) change_ended_.Wait(mu_);
  changing_ = true;
  return ++sequence_;
}

void GrpcStore::EndChange() {
  {
    MutexLock lock(mu_);
    changing_ = false;
  }
  change_ended_.NotifyOne();
}

}  // namespace dp::client
