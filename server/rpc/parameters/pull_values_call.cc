#include "server/rpc/parameters/pull_values_call.h"

#include <algorithm>
#include <utility>

#include "base/checksum/crc32c.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/convert/convert_call.h"

namespace dp::server {

absl::Status PullValuesCall::Admitted(const View& view) {
  DP_RETURN_IF_ERROR(CheckRankOf(request_, view));
  SetHeader(view, &response_);
  DP_ASSIGN_OR_RETURN(const auto table, parameters_.tables.Find(JobId(request_.job())));
  DP_RETURN_IF_ERROR(BeginWait());
  return table->Pull({Generation(request_.generation()), request_.rank()}, request_.number(),
                     BoundedWait(request_.timeout()), request_.without_values(),
                     [self = shared_from_this(), this](absl::StatusOr<TableThread::Pulled> pulled) {
                       FinishOnError(Answered(std::move(pulled)));
                     });
}

absl::Status PullValuesCall::Answered(absl::StatusOr<TableThread::Pulled> pulled) {
  DP_RETURN_IF_ERROR(pulled.status());
  values_ = std::move(pulled->values);
  response_.mutable_missing()->Assign(pulled->missing.begin(), pulled->missing.end());
  response_.mutable_missing_at()->Assign(pulled->missing_at.begin(), pulled->missing_at.end());
  *response_.mutable_state() = std::move(pulled->state);
  if (values_ == nullptr) return Submit([this] { return SendChunk(); });
  response_.set_bytes(values_->size() * sizeof(float));
  Stream([this] { return SendChunk(); });
  return absl::OkStatus();
}

absl::Status PullValuesCall::FillChunk() {
  if (values_ == nullptr) return absl::OkStatus();
  const size_t size =
      std::min<size_t>(kParameterChunkBytes, values_->size() * sizeof(float) - sent_);
  response_.set_data(reinterpret_cast<const char*>(values_->data()) + sent_, size);
  crc_ = ExtendCrc32c(crc_, response_.data());
  response_.set_crc32c(crc_);
  sent_ += size;
  return absl::OkStatus();
}

bool PullValuesCall::more() const {
  return values_ != nullptr && sent_ < values_->size() * sizeof(float);
}

}  // namespace dp::server
