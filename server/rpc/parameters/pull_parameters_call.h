#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "dp/v1/parameters.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/access/admission.h"
#include "server/parameters/parameters.h"
#include "server/rpc/parameters/parameter_calls.h"
#include "server/rpc/parameters/stream_progress.h"

namespace dp::server {

// One Pull. The driver checks the caller. Then the call waits for a version, if there is none yet.
// The service's threads read its chunks, one after the other, as the client takes them. Tasks that
// are under way share the call, which ends with the last of them.
class PullParametersCall final : public grpc::ServerWriteReactor<v1::PullParametersResponse>,
                                 public std::enable_shared_from_this<PullParametersCall> {
 public:
  PullParametersCall(Admission admission, Parameters& parameters,
                     grpc::CallbackServerContext& context,
                     const v1::PullParametersRequest& request);

  // Called once, before gRPC has the call.
  void Start();
  void OnWriteDone(bool ok) override;
  void OnCancel() override { Woken(); }
  void OnDone() override {
    progress_.Done();
    const auto last = std::move(self_);
  }

 private:
  // The steps. Each ends the call on an error, or hands it on.
  absl::Status Admitted(const View& view);
  absl::Status Look();
  absl::Status Wait();
  void Woken();
  absl::Status Waited();
  absl::Status Open(uint64_t version);
  absl::Status SendChunk();
  absl::Status Submit(absl::Status (PullParametersCall::*step)());
  void FinishOnError(const absl::Status& status);
  SetKey key() const { return KeyOf(request_); }

  const Admission admission_;
  Parameters& parameters_;
  grpc::CallbackServerContext& context_;
  const v1::PullParametersRequest& request_;
  const StreamSlot slot_;
  std::shared_ptr<PullParametersCall> self_;  // until gRPC is done with the call
  std::optional<VersionReader> reader_;
  int next_chunk_ = 0;
  v1::PullParametersResponse response_;  // of the write in flight
  StreamProgress progress_;

  CallTimers::Id timeout_ = 0;
  ParameterStore::Watch watch_ = 0;
  std::atomic<bool> woken_ = false;
  std::atomic<bool> waits_ = false;  // the wait has begun, and nobody has ended it
};

}  // namespace dp::server
