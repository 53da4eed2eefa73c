#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "dp/v1/parameters.pb.h"
#include "server/rpc/parameters/parameter_calls.h"
#include "server/rpc/parameters/stream_call.h"

namespace dp::server {

// One PushGradients. The table says whether the gradient counts before its data are taken.
class PushGradientsCall final : public PushCall<v1::PushGradientsRequest> {
 public:
  PushGradientsCall(Admission admission, Parameters& parameters,
                    grpc::CallbackServerContext& context, v1::PushGradientsResponse& response)
      : PushCall(std::move(admission), parameters, context), response_(response) {}

 private:
  Admission AboutHeader() const override;
  absl::Status Admitted(const View& view) override;
  void Placed(absl::StatusOr<TableThread::Place> place);
  absl::Status Take() override;
  absl::Status Complete() override;
  void Pushed(const absl::StatusOr<uint64_t>& next);
  TableThread::From from() const { return {Generation(header_.generation()), header_.rank()}; }

  v1::PushGradientsResponse& response_;
  std::shared_ptr<TableThread> table_;
  TableThread::Place place_;
  std::vector<float> data_;
  size_t bytes_ = 0;  // of data_ that have come
  uint32_t crc_ = 0;  // of these
};

}  // namespace dp::server
