#include "worker/agent/drain_end.h"

#include <pthread.h>

#include <utility>

#include "base/program/log.h"
#include "base/status.h"
#include "client/retry_loop.h"
#include "dp/v1/workers.grpc.pb.h"

namespace dp::worker {

DrainEnd::DrainEnd(client::Connection& connection, std::string reason, const Clock& clock,
                   uint64_t seed)
    : connection_(connection), reason_(std::move(reason)), clock_(clock), seed_(seed) {}

DrainEnd::~DrainEnd() { pause_.Stop(); }

void DrainEnd::Begin(const std::string& worker) {
  thread_ = std::jthread([this, worker] { End(worker); });
  pthread_setname_np(thread_.native_handle(), "drain-end");
}

void DrainEnd::End(const std::string& worker) {
  const client::RetryOptions options{.deadline = absl::InfiniteDuration()};
  const absl::Status status =
      client::RetryLoop(client::RetryPolicy(options, seed_), clock_, pause_,
                        [&](absl::Duration deadline_in) { return Try(worker, deadline_in); });
  if (status.ok() || absl::IsCancelled(status)) return;
  Log(Severity::kWarning, "undrain_failed", {{"worker", worker}, {"reason", status.ToString()}});
}

// Lists the drains first, because coordinators of an earlier release ignore the request's reason.
absl::Status DrainEnd::Try(const std::string& worker, absl::Duration deadline_in) {
  DP_ASSIGN_OR_RETURN(const auto listed,
                      connection_.Call(&v1::Workers::Stub::List, {}, deadline_in));
  for (const v1::Worker& each : listed.workers()) {
    if (each.name() != worker || !each.drained()) continue;
    if (each.reason() != reason_) {
      Log(Severity::kInfo, "drain_kept", {{"worker", worker}, {"drain", each.reason()}});
      continue;
    }
    v1::UndrainRequest request;
    request.set_worker(worker);
    request.set_reason(reason_);
    const absl::Status status =
        connection_.Call(&v1::Workers::Stub::Undrain, request, deadline_in).status();
    if (absl::IsFailedPrecondition(status)) {  // drained for another reason since the listing
      Log(Severity::kInfo, "drain_kept", {{"worker", worker}, {"why", status.message()}});
      continue;
    }
    DP_RETURN_IF_ERROR(status);
    Log(Severity::kInfo, "undrained", {{"worker", worker}, {"drain", reason_}});
  }
  return absl::OkStatus();
}

}  // namespace dp::worker
