#pragma once

#include "absl/status/status.h"
#include "dp/v1/parameters.pb.h"
#include "server/rpc/parameters/parameter_calls.h"
#include "server/rpc/parameters/stream_call.h"

namespace dp::server {

// One PullValues. The table answers when its values are those that the rank waits for; the
// service's threads cut them into chunks.
class PullValuesCall final : public PullCall<v1::PullValuesResponse> {
 public:
  PullValuesCall(Admission admission, Parameters& parameters, grpc::CallbackServerContext& context,
                 const v1::PullValuesRequest& request)
      : PullCall(std::move(admission), parameters, context), request_(request) {}

 private:
  absl::Status Admitted(const View& view) override;
  absl::Status Answered(absl::StatusOr<TableThread::Pulled> pulled);
  absl::Status FillChunk() override;
  bool more() const override;

  const v1::PullValuesRequest& request_;
  TableThread::Values values_;
  size_t sent_ = 0;   // bytes of them
  uint32_t crc_ = 0;  // of these
};

}  // namespace dp::server
