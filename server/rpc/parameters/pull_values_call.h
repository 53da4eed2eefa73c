#pragma once

#include <memory>

#include "absl/status/status.h"
#include "dp/v1/parameters.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/access/admission.h"
#include "server/parameters/parameters.h"
#include "server/rpc/parameters/parameter_calls.h"
#include "server/rpc/parameters/stream_progress.h"

namespace dp::server {

// One PullValues. The driver checks the caller. The table answers when its values are those that
// the rank waits for; the service's threads cut them into chunks, as the client takes them.
class PullValuesCall final : public grpc::ServerWriteReactor<v1::PullValuesResponse>,
                             public std::enable_shared_from_this<PullValuesCall> {
 public:
  PullValuesCall(Admission admission, Parameters& parameters, grpc::CallbackServerContext& context,
                 const v1::PullValuesRequest& request);

  // Called once, before gRPC has the call.
  void Start();
  void OnWriteDone(bool ok) override;
  void OnDone() override {
    progress_.Done();
    const auto last = std::move(self_);
  }

 private:
  // The steps. Each ends the call on an error, or hands it on.
  absl::Status Admitted(const View& view);
  absl::Status Answered(absl::StatusOr<TableThread::Pulled> pulled);
  absl::Status SendChunk();
  absl::Status Submit();
  void FinishOnError(const absl::Status& status);

  const Admission admission_;
  Parameters& parameters_;
  const v1::PullValuesRequest& request_;
  const StreamSlot slot_;
  std::shared_ptr<PullValuesCall> self_;  // until gRPC is done with the call
  TableThread::Values values_;
  size_t sent_ = 0;                  // bytes of them
  uint32_t crc_ = 0;                 // of these
  v1::PullValuesResponse response_;  // of the write in flight
  StreamProgress progress_;
};

}  // namespace dp::server
