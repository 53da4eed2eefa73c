#include "worker/engine/collectives/nccl/nccl_operations.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace dp::engine {
absl::StatusOr<NcclEvent> RecordNcclEvent(NcclApi& api, NcclApi::Stream stream) {
  DP_ASSIGN_OR_RETURN(const NcclApi::Event event, api.Record(stream));
  return NcclEvent(event, [&api](NcclApi::Event passed) { api.FreeEvent(passed); });
}

void NcclOperations::Push(const Handle& operation) {
  NcclOperation::Means spent;
  MutexLock lock(mu_);
  ++open_;
  if (open_ <= open_max_) {
    pushed_.push_back(operation);
  } else {
    // The other ranks may run it, so this group is out of step from here on.
    const absl::Status overrun = absl::ResourceExhaustedError(
        absl::StrCat(operation->name, ": ", open_max_, " operations are already waiting"));
    if (!broken_.has_value()) broken_ = overrun;
    spent = EndLocked(*operation, overrun);
  }
  news_.NotifyAll();
}

absl::Status NcclOperations::Wait(const NcclOperation& operation) {
  MutexLock lock(mu_);
  while (!operation.ended) moved_.Wait(mu_);
  return operation.status;
}

absl::StatusOr<NcclEvent> NcclOperations::AwaitGiven(const NcclOperation& operation) {
  MutexLock lock(mu_);
  while (!operation.given && !operation.ended) moved_.Wait(mu_);
  if (!operation.status.ok()) return operation.status;
  return operation.means.done;
}

bool NcclOperations::ended(const NcclOperation& operation) const {
  MutexLock lock(mu_);
  return operation.ended;
}

WorkTimes NcclOperations::times(const NcclOperation& operation) const {
  MutexLock lock(mu_);
  return operation.times;
}

void NcclOperations::Abort(const absl::Status& why) {
  MutexLock lock(mu_);
  if (!aborted_.has_value()) aborted_ = why;
  end_is_news_ = true;
  news_.NotifyAll();
}

void NcclOperations::Break(const absl::Status& why) {
  MutexLock lock(mu_);
  if (broken_.has_value()) return;
  broken_ = why;
  end_is_news_ = true;
  news_.NotifyAll();
}

std::vector<NcclOperations::Handle> NcclOperations::Take() {
  MutexLock lock(mu_);
  std::vector<Handle> taken(pushed_.begin(), pushed_.end());
  pushed_.clear();
  end_is_news_ = false;
  return taken;
}

std::optional<absl::Status> NcclOperations::aborted() const {
  MutexLock lock(mu_);
  return aborted_;
}

std::optional<absl::Status> NcclOperations::broken() const {
  MutexLock lock(mu_);
  return broken_;
}

std::optional<absl::Status> NcclOperations::failed() const {
  MutexLock lock(mu_);
  return failed_;
}

void NcclOperations::Given(NcclOperation& operation, NcclEvent done) {
  MutexLock lock(mu_);
  operation.means.done = std::move(done);
  operation.given = true;
  moved_.NotifyAll();
}

void NcclOperations::Begun(NcclOperation& operation) {
  MutexLock lock(mu_);
  operation.times.begun = std::min(operation.times.begun, clock_.Now());
}

void NcclOperations::End(NcclOperation& operation, const absl::Status& status) {
  NcclOperation::Means spent;
  MutexLock lock(mu_);
  spent = EndLocked(operation, status);
}

void NcclOperations::AwaitNews(absl::Duration timeout) {
  MutexLock lock(mu_);
  if (pushed_.empty() && !end_is_news_) news_.WaitFor(mu_, timeout);
}

NcclOperation::Means NcclOperations::EndLocked(NcclOperation& operation,
                                               const absl::Status& status) {
  if (!status.ok() && !aborted_.has_value() && !failed_.has_value()) failed_ = status;
  operation.status = status;
  operation.times.ended = clock_.Now();
  operation.times.begun = std::min(operation.times.begun, operation.times.ended);
  operation.ended = true;
  --open_;
  moved_.NotifyAll();
  return std::exchange(operation.means, {});
}

}  // namespace dp::engine
