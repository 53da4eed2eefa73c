#include "worker/library/pending_work.h"

#include <utility>

#include "base/status.h"
#include "worker/library/dist_error.h"

namespace dp::library {

PendingWork::PendingWork(std::unique_ptr<engine::Work> work, std::string context,
                         std::optional<NcclUse> on_stream)
    : context_(std::move(context)), on_stream_(on_stream), work_(std::move(work)) {}

PendingWork::~PendingWork() {
  if (in_fork()) {
    LeaveToParent(std::move(work_));
  } else if (!ordered_) {
    (void)Order();  // only for the memory; an error shows in the group's next operation
  }
}

void PendingWork::CheckProcess() const {
  if (in_fork()) ThrowInFork(context_);
}

void PendingWork::Wait() {
  CheckProcess();
  OrThrow(Order(), ErrorSource::kOperation, context_);
}

bool PendingWork::done() const {
  CheckProcess();
  return work_->done();
}

absl::Status PendingWork::Order() {
  if (!on_stream_) return work_->Wait();
  DP_RETURN_IF_ERROR(on_stream_->api->UseDevice(on_stream_->device));
  const absl::Status status = work_->WaitOnStream();
  ordered_ = ordered_ || status.ok();
  return status;
}

}  // namespace dp::library
