#include "server/rpc/parameters/pull_parameters_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/convert/convert_call.h"

namespace dp::server {

absl::Status PullParametersCall::Admitted(const View& view) {
  DP_RETURN_IF_ERROR(CheckKey(key()));
  DP_RETURN_IF_ERROR(CheckSet(admission_, key(), view));
  SetHeader(view, &response_);
  return Submit([this] { return Look(); });
}

absl::Status PullParametersCall::Look() {
  const auto found = parameters_.store.Find(key(), request_.version());
  if (found.ok() && found->version() > request_.since()) {
    Stream([this, version = found->version()] { return Open(version); });
    return absl::OkStatus();
  }
  const bool never = request_.version() != 0;  // versions that are gone do not come back
  if (!waited_ && !never && BoundedWait(request_.timeout()) > absl::ZeroDuration()) return Wait();
  if (!found.ok() && !waited_) return found.status();
  return absl::DeadlineExceededError(absl::StrCat(key().ToString(),
                                                  " has no parameters later than version ",
                                                  request_.since(), waited_ ? " yet" : ""));
}

absl::Status PullParametersCall::Wait() {
  DP_RETURN_IF_ERROR(BeginWait());
  const auto woken = [self = shared_from_this(), this] { Woken(); };
  timeout_ = parameters_.timers.After(BoundedWait(request_.timeout()), woken);
  watch_ = parameters_.store.Await(key(), request_.since(), woken);
  waits_ = true;
  // A wake before this has found no wait to end.
  if (woken_ || context_.IsCancelled()) Woken();
  return absl::OkStatus();
}

// The caller's rights may have changed since, so the driver checks them again.
void PullParametersCall::Woken() {
  woken_ = true;
  if (!waits_.exchange(false)) return;
  waited_ = true;
  parameters_.timers.Cancel(timeout_);
  parameters_.store.Forget(watch_);
  FinishOnError(AskDriver());
}

absl::Status PullParametersCall::Open(uint64_t version) {
  DP_ASSIGN_OR_RETURN(VersionReader reader, parameters_.store.Open(key(), version));
  reader_.emplace(std::move(reader));
  *response_.mutable_version() = reader_->description().version();
  return SendChunk();
}

absl::Status PullParametersCall::FillChunk() {
  if (!more()) return absl::OkStatus();
  DP_ASSIGN_OR_RETURN(*response_.mutable_data(), reader_->Chunk(next_chunk_, /*check=*/false));
  response_.set_crc32c(reader_->description().chunk_crc32c(next_chunk_));
  ++next_chunk_;
  return absl::OkStatus();
}

}  // namespace dp::server
