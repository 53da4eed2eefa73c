#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "dp/v1/parameters.pb.h"
#include "server/rpc/parameters/parameter_calls.h"
#include "server/rpc/parameters/stream_call.h"

namespace dp::server {

// One Push. The service's threads check and write the chunks.
class PushParametersCall final : public PushCall<v1::PushParametersRequest> {
 public:
  PushParametersCall(Admission admission, Parameters& parameters,
                     grpc::CallbackServerContext& context, v1::PushParametersResponse& response)
      : PushCall(std::move(admission), parameters, context), response_(response) {}

 private:
  Admission AboutHeader() const override;
  absl::Status Admitted(const View& view) override;
  absl::Status Begin();
  absl::Status Take() override;
  absl::Status Complete() override;
  SetKey key() const { return KeyOf(header_); }

  v1::PushParametersResponse& response_;
  std::string owner_;
  std::unique_ptr<ParameterStore::Push> push_;
};

}  // namespace dp::server
