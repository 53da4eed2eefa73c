#include "server/shell/store_service.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "server/shell/call.h"
#include "server/shell/convert_store.h"
#include "server/shell/convert_values.h"

namespace dp::server {
namespace {

constexpr size_t kMissingKeysNamed = 10;  // in an error; a status travels in a header of 8 KiB

absl::StatusOr<core::StoreBatch> ToBatch(const v1::ExecuteRequest& request) {
  core::StoreBatch batch{JobId(request.job()),
                         Generation(request.generation()),
                         request.client(),
                         request.sequence(),
                         {}};
  for (const v1::StoreOperation& operation : request.operations()) {
    DP_ASSIGN_OR_RETURN(StoreOperation converted, FromProto(operation));
    batch.operations.push_back(std::move(converted));
  }
  return batch;
}

absl::Status DeadlineExceeded(std::vector<std::string> missing) {
  const size_t more = missing.size() - std::min(missing.size(), kMissingKeysNamed);
  missing.resize(missing.size() - more);
  for (std::string& key : missing)
    key = absl::StrCat("\"", absl::CEscape(key.substr(0, 100)), "\"");
  return absl::DeadlineExceededError(
      absl::StrCat("nobody has set ", absl::StrJoin(missing, ", "),
                   more > 0 ? absl::StrCat(" and ", more, " more") : std::string()));
}

// The topics of the keys, and of the world: with it ends the store.
std::vector<core::Topic> Topics(const v1::AwaitRequest& request) {
  std::vector<core::Topic> topics{{.kind = core::Topic::Kind::kWorld, .id = request.job()}};
  for (const std::string& key : request.keys()) {
    topics.push_back({.kind = core::Topic::Kind::kStoreKey, .id = request.job(), .key = key});
  }
  return topics;
}

// The store was there when the wait began, so that its end is news: Aborted.
absl::Status GoneWhileWaiting(const absl::Status& status) {
  const bool ended = status.code() == absl::StatusCode::kFailedPrecondition;
  return ended ? absl::AbortedError(status.message()) : status;
}

}  // namespace

grpc::ServerUnaryReactor* StoreService::Execute(grpc::CallbackServerContext* context,
                                                const v1::ExecuteRequest* request,
                                                v1::ExecuteResponse* response) {
  auto batch = ToBatch(*request);
  if (!batch.ok()) return Refuse(context, batch.status());
  return Apply(
      driver_, context, *std::move(batch), [=](const core::Outcome& outcome, const View& view) {
        SetHeader(view, response);
        for (const StoreResult& result : std::get<std::vector<StoreResult>>(outcome.reply)) {
          *response->add_results() = ToProto(result);
        }
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* StoreService::Await(grpc::CallbackServerContext*,
                                              const v1::AwaitRequest* request,
                                              v1::AwaitResponse* response) {
  const std::vector<std::string> keys(request->keys().begin(), request->keys().end());
  return Wait(
      driver_, Topics(*request), BoundedWait(request->timeout()),
      [=, waited = false](const View& view, bool last) mutable -> std::optional<absl::Status> {
        const auto store =
            view.coordinator.store(JobId(request->job()), Generation(request->generation()));
        if (!store.ok()) return waited ? GoneWhileWaiting(store.status()) : store.status();
        waited = true;
        std::vector<std::string> missing = (*store)->Missing(keys);
        if (!missing.empty() && !last) return std::nullopt;
        if (!missing.empty()) return DeadlineExceeded(std::move(missing));
        SetHeader(view, response);
        for (const std::string& key : keys) response->add_values(*(*store)->Find(key));
        return absl::OkStatus();
      });
}

}  // namespace dp::server
