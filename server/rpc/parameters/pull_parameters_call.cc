#include "server/rpc/parameters/pull_parameters_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/convert/convert_call.h"

namespace dp::server {

PullParametersCall::PullParametersCall(Admission admission, Parameters& parameters,
                                       grpc::CallbackServerContext& context,
                                       const v1::PullParametersRequest& request)
    : admission_(std::move(admission)),
      parameters_(parameters),
      context_(context),
      request_(request),
      slot_(parameters),
      progress_(parameters.timers, context) {}

void PullParametersCall::Start() {
  self_ = shared_from_this();
  absl::Status status = slot_.status();
  if (status.ok()) {
    status = admission_.Ask([self = self_](const absl::Status& asked, const View& view) {
      self->FinishOnError(asked.ok() ? self->Admitted(view) : asked);
    });
  }
  FinishOnError(status);
}

void PullParametersCall::FinishOnError(const absl::Status& status) {
  if (!status.ok()) Finish(ToGrpc(status));
}

absl::Status PullParametersCall::Submit(absl::Status (PullParametersCall::*step)()) {
  return parameters_.threads.Submit(
      [self = shared_from_this(), step] { self->FinishOnError((*self.*step)()); });
}

absl::Status PullParametersCall::Admitted(const View& view) {
  DP_RETURN_IF_ERROR(CheckKey(key()));
  DP_RETURN_IF_ERROR(CheckSet(admission_, key(), view));
  SetHeader(view, &response_);
  return Submit(&PullParametersCall::Look);
}

absl::Status PullParametersCall::Look() {
  const auto found = parameters_.store.Find(key(), request_.version());
  if (found.ok() && found->version() > request_.since()) return Open(found->version());
  const bool never = request_.version() != 0;  // versions that are gone do not come back
  if (never || BoundedWait(request_.timeout()) <= absl::ZeroDuration()) {
    if (!found.ok()) return found.status();
    return absl::DeadlineExceededError(
        absl::StrCat(key().ToString(), " has no parameters later than version ", request_.since()));
  }
  return Wait();
}

absl::Status PullParametersCall::Wait() {
  const auto woken = [self = shared_from_this()] { self->Woken(); };
  timeout_ = parameters_.timers.After(BoundedWait(request_.timeout()), woken);
  watch_ = parameters_.store.Await(key(), request_.since(), woken);
  waits_ = true;
  // A wake before this has found no wait to end.
  if (woken_ || context_.IsCancelled()) Woken();
  return absl::OkStatus();
}

void PullParametersCall::Woken() {
  woken_ = true;
  if (waits_.exchange(false)) FinishOnError(Submit(&PullParametersCall::Waited));
}

absl::Status PullParametersCall::Waited() {
  parameters_.timers.Cancel(timeout_);
  parameters_.store.Forget(watch_);
  const auto found = parameters_.store.Find(key(), 0);
  if (found.ok() && found->version() > request_.since()) return Open(found->version());
  return absl::DeadlineExceededError(absl::StrCat(
      key().ToString(), " has no parameters later than version ", request_.since(), " yet"));
}

absl::Status PullParametersCall::Open(uint64_t version) {
  DP_ASSIGN_OR_RETURN(VersionReader reader, parameters_.store.Open(key(), version));
  reader_.emplace(std::move(reader));
  *response_.mutable_version() = reader_->description().version();
  return SendChunk();
}

absl::Status PullParametersCall::SendChunk() {
  if (next_chunk_ < reader_->chunks()) {
    DP_ASSIGN_OR_RETURN(*response_.mutable_data(), reader_->Chunk(next_chunk_, /*check=*/false));
    response_.set_crc32c(reader_->description().chunk_crc32c(next_chunk_));
    ++next_chunk_;
  }
  progress_.Await(shared_from_this());
  StartWrite(&response_);
  return absl::OkStatus();
}

void PullParametersCall::OnWriteDone(bool ok) {
  progress_.Came();
  if (!ok) return Finish(ToGrpc(absl::CancelledError("the client went away")));
  response_.Clear();
  if (next_chunk_ >= reader_->chunks()) return Finish(grpc::Status::OK);
  FinishOnError(Submit(&PullParametersCall::SendChunk));
}

}  // namespace dp::server
