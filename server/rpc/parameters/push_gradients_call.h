#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "dp/v1/parameters.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/access/admission.h"
#include "server/parameters/parameters.h"
#include "server/rpc/parameters/parameter_calls.h"
#include "server/rpc/parameters/stream_progress.h"

namespace dp::server {

// One PushGradients. The driver checks the caller, and the table whether the gradient counts; only
// then its data are taken. As PushParametersCall, one thread at a time has the call.
class PushGradientsCall final : public grpc::ServerReadReactor<v1::PushGradientsRequest>,
                                public std::enable_shared_from_this<PushGradientsCall> {
 public:
  PushGradientsCall(Admission admission, Parameters& parameters,
                    grpc::CallbackServerContext& context, v1::PushGradientsResponse& response);

  // Called once, before gRPC has the call.
  void Start();
  void OnReadDone(bool ok) override;
  void OnDone() override {
    progress_.Done();
    const auto last = std::move(self_);
  }

 private:
  void Read();
  // The steps. Each ends the call on an error, or hands it on.
  absl::Status Ask();
  absl::Status Admitted(const View& view);
  void Placed(absl::StatusOr<TableThread::Place> place);
  absl::Status Take();
  absl::Status Complete();
  void Pushed(const absl::StatusOr<uint64_t>& next);
  absl::Status Submit(absl::Status (PushGradientsCall::*step)());
  void FinishOnError(const absl::Status& status);
  TableThread::From from() const { return {Generation(header_.generation()), header_.rank()}; }

  Admission admission_;  // about the rank, once the header is read
  Parameters& parameters_;
  v1::PushGradientsResponse& response_;
  const StreamSlot slot_;
  std::shared_ptr<PushGradientsCall> self_;  // until gRPC is done with the call
  StreamProgress progress_;
  v1::PushGradientsRequest request_;  // of the read in flight, then of its task
  bool begun_ = false;                // the first message was read
  v1::PushGradientsRequest header_;   // the first message, without data
  std::shared_ptr<TableThread> table_;
  TableThread::Place place_;
  std::vector<float> data_;
  size_t bytes_ = 0;  // of data_ that have come
  uint32_t crc_ = 0;  // of these
};

}  // namespace dp::server
