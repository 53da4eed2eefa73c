#include "worker/engine/collectives/nccl/nccl_message.h"

#include <algorithm>

#include "base/status.h"

namespace dp::engine {

NcclMessage::NcclMessage(const Message& message, absl::Duration timeout, NcclEvent computed)
    : PendingMessage(message, timeout), computed_(std::move(computed)) {
  Count();
}

absl::StatusOr<NcclEvent> NcclMessage::AwaitGiven() {
  MutexLock lock(mu_);
  while (!given_ && !end_.has_value()) moved_.Wait(mu_);
  if (end_.has_value() && !end_->ok()) return *end_;
  return result_;
}

void NcclMessage::End(const absl::Status& status) {
  NcclEvent result;
  {
    MutexLock lock(mu_);
    if (!end_.has_value()) end_ = status;
    std::swap(result, result_);
    moved_.NotifyAll();
  }
  computed_.reset();
  result.reset();
  PendingMessage::End(status);
}

NcclEvent NcclMessage::result() const {
  MutexLock lock(mu_);
  return result_;
}

void NcclMessage::Given(NcclEvent result) {
  MutexLock lock(mu_);
  result_ = std::move(result);
  given_ = true;
  moved_.NotifyAll();
}

void NcclMessage::InputIsThere(absl::Time now) {
  input_at_ = now;
  Count();
}

void NcclMessage::WaitsInLine() {
  first_at_ = absl::InfiniteFuture();
  Count();
}

void NcclMessage::IsFirst(absl::Time now) {
  first_at_ = now;
  Count();
}

void NcclMessage::Count() { CountFrom(std::max({called(), input_at_, first_at_})); }

absl::Status NcclMessageWork::WaitOnStream() {
  DP_ASSIGN_OR_RETURN(const NcclEvent result, message_->AwaitGiven());
  return result == nullptr ? absl::OkStatus() : api_.WaitOnStream(compute_stream_, result.get());
}

}  // namespace dp::engine
