#include "server/rpc/parameters/pull_values_call.h"

#include <algorithm>
#include <utility>

#include "base/checksum/crc32c.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/convert/convert_call.h"

namespace dp::server {

PullValuesCall::PullValuesCall(Admission admission, Parameters& parameters,
                               grpc::CallbackServerContext& context,
                               const v1::PullValuesRequest& request)
    : admission_(std::move(admission)),
      parameters_(parameters),
      request_(request),
      slot_(parameters),
      progress_(parameters.timers, context) {}

void PullValuesCall::Start() {
  self_ = shared_from_this();
  absl::Status status = slot_.status();
  if (status.ok()) {
    status = admission_.Ask([self = self_](const absl::Status& asked, const View& view) {
      self->FinishOnError(asked.ok() ? self->Admitted(view) : asked);
    });
  }
  FinishOnError(status);
}

void PullValuesCall::FinishOnError(const absl::Status& status) {
  if (!status.ok()) Finish(ToGrpc(status));
}

absl::Status PullValuesCall::Submit() {
  return parameters_.threads.Submit(
      [self = shared_from_this()] { self->FinishOnError(self->SendChunk()); });
}

absl::Status PullValuesCall::Admitted(const View& view) {
  DP_RETURN_IF_ERROR(CheckRankOf(request_, view));
  SetHeader(view, &response_);
  DP_ASSIGN_OR_RETURN(const auto table, parameters_.tables.Find(JobId(request_.job())));
  return table->Pull({Generation(request_.generation()), request_.rank()}, request_.number(),
                     BoundedWait(request_.timeout()), request_.without_values(),
                     [self = shared_from_this()](absl::StatusOr<TableThread::Pulled> pulled) {
                       self->FinishOnError(self->Answered(std::move(pulled)));
                     });
}

absl::Status PullValuesCall::Answered(absl::StatusOr<TableThread::Pulled> pulled) {
  DP_RETURN_IF_ERROR(pulled.status());
  values_ = std::move(pulled->values);
  response_.mutable_missing()->Assign(pulled->missing.begin(), pulled->missing.end());
  *response_.mutable_state() = std::move(pulled->state);
  if (values_ != nullptr) response_.set_bytes(values_->size() * sizeof(float));
  return Submit();
}

absl::Status PullValuesCall::SendChunk() {
  if (values_ != nullptr) {
    const size_t size =
        std::min<size_t>(kParameterChunkBytes, values_->size() * sizeof(float) - sent_);
    response_.set_data(reinterpret_cast<const char*>(values_->data()) + sent_, size);
    crc_ = ExtendCrc32c(crc_, response_.data());
    response_.set_crc32c(crc_);
    sent_ += size;
  }
  progress_.Await(shared_from_this());
  StartWrite(&response_);
  return absl::OkStatus();
}

void PullValuesCall::OnWriteDone(bool ok) {
  progress_.Came();
  if (!ok) return Finish(ToGrpc(absl::CancelledError("the client went away")));
  response_.Clear();
  if (values_ != nullptr && sent_ < values_->size() * sizeof(float)) {
    return FinishOnError(Submit());
  }
  values_.reset();
  Finish(grpc::Status::OK);
}

}  // namespace dp::server
