#include "server/rpc/parameters/push_gradients_call.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/checksum/crc32c.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/convert/convert_call.h"

namespace dp::server {

Admission PushGradientsCall::AboutHeader() const {
  return admission_.About(AccessObject::Of(RankKeyOf(header_)));
}

absl::Status PushGradientsCall::Admitted(const View& view) {
  DP_RETURN_IF_ERROR(CheckRankOf(header_, view));
  SetHeader(view, &response_);
  DP_ASSIGN_OR_RETURN(table_, parameters_.tables.Find(JobId(header_.job())));
  return table_->Begin(from(), header_.number(),
                       [self = shared_from_this(), this](absl::StatusOr<TableThread::Place> place) {
                         Placed(std::move(place));
                       });
}

void PushGradientsCall::Placed(absl::StatusOr<TableThread::Place> place) {
  if (!place.ok()) return FinishOnError(place.status());
  place_ = *std::move(place);
  response_.set_next(place_.next);
  if (!place_.take) return Finish(grpc::Status::OK);
  Stream([this] { return Take(); });
}

absl::Status PushGradientsCall::Take() {
  if (data_.empty()) data_.resize(place_.floats);
  const size_t left = data_.size() * sizeof(float) - bytes_;
  if (request_.data().size() > left) {
    return absl::InvalidArgumentError(absl::StrCat("data: the gradient has more than the ",
                                                   data_.size() * sizeof(float),
                                                   " bytes of the table's"));
  }
  crc_ = ExtendCrc32c(crc_, request_.data());
  if (!request_.data().empty() && crc_ != request_.crc32c()) {
    return absl::DataLossError(absl::StrCat("data: the bytes before ",
                                            bytes_ + request_.data().size(),
                                            " do not match their checksum; push again"));
  }
  std::memcpy(reinterpret_cast<char*>(data_.data()) + bytes_, request_.data().data(),
              request_.data().size());
  bytes_ += request_.data().size();
  Read();
  return absl::OkStatus();
}

absl::Status PushGradientsCall::Complete() {
  if (bytes_ != data_.size() * sizeof(float)) {
    return absl::InvalidArgumentError(absl::StrCat("data: the stream has ended after ", bytes_,
                                                   " of ", data_.size() * sizeof(float), " bytes"));
  }
  const GradientNote note = {.epoch_loss_sum = header_.epoch_loss_sum(),
                             .epoch_samples = header_.epoch_samples(),
                             .samples = header_.samples(),
                             .leaving = header_.leaving()};
  return table_->Push(
      from(), header_.number(), std::move(data_), note,
      [self = shared_from_this(), this](const absl::StatusOr<uint64_t>& next) { Pushed(next); });
}

void PushGradientsCall::Pushed(const absl::StatusOr<uint64_t>& next) {
  place_ = {};
  if (next.ok()) response_.set_next(*next);
  Finish(ToGrpc(next.status()));
}

}  // namespace dp::server
