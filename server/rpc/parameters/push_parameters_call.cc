#include "server/rpc/parameters/push_parameters_call.h"

#include <utility>

#include "base/limits.h"
#include "base/status.h"
#include "server/convert/convert_call.h"

namespace dp::server {
Admission PushParametersCall::AboutHeader() const {
  if (admission_.caller().kind != Caller::Kind::kRank || !key().job.valid()) {
    return About(admission_, key(), parameters_.store);
  }
  return admission_.About(AccessObject::Of(
      core::RankKey{JobId(header_.job()), Generation(header_.generation()), header_.rank()}));
}

absl::Status PushParametersCall::Admitted(const View& view) {
  DP_RETURN_IF_ERROR(CheckKey(key()));
  DP_RETURN_IF_ERROR(CheckSet(admission_, key(), view));
  DP_RETURN_IF_ERROR(CheckRequestId(header_.request_id()));
  if (admission_.caller().kind == Caller::Kind::kRank) {
    DP_RETURN_IF_ERROR(
        core::CheckGeneration(*view.coordinator.job(key().job), Generation(header_.generation())));
  } else {
    header_.clear_generation();
  }
  if (admission_.caller().is_person()) owner_ = admission_.caller().identity.name;
  SetHeader(view, &response_);
  Stream([this] { return Begin(); });
  return absl::OkStatus();
}

absl::Status PushParametersCall::Begin() {
  v1::ParameterVersion version;
  version.set_step(header_.step());
  version.set_generation(header_.generation());
  if (!key().job.valid()) {
    const std::string owner = parameters_.store.OwnerOf(key());
    version.set_owner(owner.empty() ? owner_ : owner);
  }
  version.mutable_tensors()->Swap(header_.mutable_tensors());
  version.mutable_metadata()->swap(*header_.mutable_metadata());
  auto push = parameters_.store.Begin(key(), version, header_.request_id());
  if (absl::IsAlreadyExists(push.status())) {
    *response_.mutable_version() =
        parameters_.store.FindPushed(key(), header_.request_id()).value_or(v1::ParameterVersion());
    Finish(grpc::Status::OK);
    return absl::OkStatus();
  }
  DP_RETURN_IF_ERROR(push.status());
  push_ = *std::move(push);
  return Take();
}

absl::Status PushParametersCall::Take() {
  if (!request_.data().empty()) {
    DP_RETURN_IF_ERROR(push_->Append(request_.data(), request_.crc32c()));
  }
  Read();
  return absl::OkStatus();
}

absl::Status PushParametersCall::Complete() {
  DP_ASSIGN_OR_RETURN(*response_.mutable_version(), push_->Finish());
  push_.reset();
  Finish(grpc::Status::OK);
  return absl::OkStatus();
}

}  // namespace dp::server
