#include "client/grpc_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/overloaded.h"
#include "base/random.h"
#include "base/status.h"
#include "client/retry_loop.h"
#include "client/time_convert.h"

namespace dp::client {
namespace {

// One long poll of Await. Short enough for a half-open connection to be noticed.
constexpr absl::Duration kPoll = absl::Seconds(10);
// What an answer may take beyond the poll itself.
constexpr absl::Duration kAnswerSlack = absl::Seconds(5);

void ToProto(const StoreOperation& operation, v1::StoreOperation& proto) {
  std::visit(Overloaded{
                 [&](const StoreSet& set) {
                   proto.mutable_set()->set_key(set.key);
                   proto.mutable_set()->set_value(set.value);
                 },
                 [&](const StoreGet& get) { proto.mutable_get()->set_key(get.key); },
                 [&](const StoreAdd& add) {
                   proto.mutable_add()->set_key(add.key);
                   proto.mutable_add()->set_amount(add.amount);
                 },
                 [&](const StoreCompareSet& compare_set) {
                   proto.mutable_compare_set()->set_key(compare_set.key);
                   proto.mutable_compare_set()->set_expected(compare_set.expected);
                   proto.mutable_compare_set()->set_desired(compare_set.desired);
                 },
                 [&](const StoreDelete& del) { proto.mutable_delete_()->set_key(del.key); },
                 [&](const StoreCheck& check) {
                   auto& keys = *proto.mutable_check()->mutable_keys();
                   keys.Assign(check.keys.begin(), check.keys.end());
                 },
             },
             operation);
}

bool Changes(const StoreOperation& operation) {
  return !std::holds_alternative<StoreGet>(operation) &&
         !std::holds_alternative<StoreCheck>(operation);
}

absl::StatusOr<std::vector<StoreResult>> FromProto(v1::ExecuteResponse response, size_t wanted) {
  if (response.results_size() != static_cast<int>(wanted))
    return absl::InternalError(absl::StrCat("store answered ", response.results_size(),
                                            " results to ", wanted, " operations"));
  std::vector<StoreResult> results;
  for (v1::StoreResult& result : *response.mutable_results())
    results.push_back({result.found(), std::move(*result.mutable_value()), result.number()});
  return results;
}

}  // namespace

GrpcStore::GrpcStore(StoreConnection& connection, Pause& pause, JobId job, Generation generation,
                     const RetryOptions& retry, const Clock& clock)
    : connection_(connection),
      pause_(pause),
      job_(job),
      generation_(generation),
      retry_(retry),
      clock_(clock),
      client_(EntropySeed() | 1) {}  // zero means a read

absl::StatusOr<std::vector<StoreResult>> GrpcStore::Execute(
    absl::Span<const StoreOperation> operations) {
  v1::ExecuteRequest request;
  request.set_job(job_.value());
  request.set_generation(generation_.value());
  for (const StoreOperation& operation : operations) ToProto(operation, *request.add_operations());
  const bool changes = std::any_of(operations.begin(), operations.end(), Changes);
  if (changes) {
    request.set_client(client_);
    request.set_sequence(BeginChange());
  }
  absl::StatusOr<v1::ExecuteResponse> response = Send(request);
  if (changes) EndChange();
  if (!response.ok()) return response.status();
  return FromProto(*std::move(response), operations.size());
}

absl::StatusOr<v1::ExecuteResponse> GrpcStore::Send(const v1::ExecuteRequest& request) {
  return RetryLoop(
      RetryPolicy(retry_, EntropySeed()), clock_, pause_,
      [&](absl::Duration deadline_in) { return connection_.Execute(request, deadline_in); });
}

absl::StatusOr<std::vector<std::string>> GrpcStore::Await(absl::Span<const std::string> keys,
                                                          absl::Duration timeout) {
  v1::AwaitRequest request;
  request.set_job(job_.value());
  request.set_generation(generation_.value());
  request.mutable_keys()->Assign(keys.begin(), keys.end());
  const absl::Time until = clock_.Now() + timeout;
  while (true) {
    absl::StatusOr<v1::AwaitResponse> response = Poll(request, until);
    if (response.ok())
      return std::vector<std::string>(response->values().begin(), response->values().end());
    const bool poll_ended = absl::IsDeadlineExceeded(response.status());
    if (!poll_ended || clock_.Now() >= until) return response.status();
  }
}

absl::StatusOr<v1::AwaitResponse> GrpcStore::Poll(v1::AwaitRequest& request, absl::Time until) {
  RetryOptions options = retry_;
  options.deadline = std::max(until - clock_.Now(), retry_.deadline);
  options.retry_deadline_exceeded = false;  // the coordinator's word that keys are missing
  return RetryLoop(RetryPolicy(options, EntropySeed()), clock_, pause_, [&](absl::Duration) {
    const absl::Duration poll =
        std::clamp(until - clock_.Now(), absl::ZeroDuration(), absl::Duration(kPoll));
    *request.mutable_timeout() = ToProto(poll);
    return connection_.Await(request, poll + kAnswerSlack);
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
