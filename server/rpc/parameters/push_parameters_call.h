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

// One Push. gRPC's threads read the messages; the driver checks the caller once, by the first one;
// the service's threads check and write the chunks. One of them at a time has the call: each hands
// it on to the next. Tasks that are under way share the call, which ends with the last of them.
class PushParametersCall final : public grpc::ServerReadReactor<v1::PushParametersRequest>,
                                 public std::enable_shared_from_this<PushParametersCall> {
 public:
  PushParametersCall(Admission admission, Parameters& parameters,
                     grpc::CallbackServerContext& context, v1::PushParametersResponse& response);

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
  absl::Status Begin();
  absl::Status Take();
  absl::Status Complete();
  absl::Status Submit(absl::Status (PushParametersCall::*step)());
  void FinishOnError(const absl::Status& status);
  SetKey key() const { return KeyOf(header_); }

  Admission admission_;  // about the set, once the header is read
  Parameters& parameters_;
  v1::PushParametersResponse& response_;
  const StreamSlot slot_;
  std::shared_ptr<PushParametersCall> self_;  // until gRPC is done with the call
  StreamProgress progress_;
  v1::PushParametersRequest request_;  // of the read in flight, then of its task
  bool begun_ = false;                 // the first message was read
  v1::PushParametersRequest header_;   // the first message, without data
  std::string owner_;
  std::unique_ptr<ParameterStore::Push> push_;
};

}  // namespace dp::server
