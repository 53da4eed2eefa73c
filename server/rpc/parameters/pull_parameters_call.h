#pragma once

#include <atomic>
#include <optional>

#include "absl/status/status.h"
#include "dp/v1/parameters.pb.h"
#include "server/rpc/parameters/parameter_calls.h"
#include "server/rpc/parameters/stream_call.h"

namespace dp::server {

// One Pull. The call waits for a version, if there is none yet. The driver checks the caller, and
// again after the wait. The service's threads read the chunks.
class PullParametersCall final : public PullCall<v1::PullParametersResponse> {
 public:
  PullParametersCall(Admission admission, Parameters& parameters,
                     grpc::CallbackServerContext& context, const v1::PullParametersRequest& request)
      : PullCall(std::move(admission), parameters, context), context_(context), request_(request) {}

  void OnCancel() override { Woken(); }

 private:
  absl::Status Admitted(const View& view) override;
  absl::Status Look();
  absl::Status Wait();
  void Woken();
  absl::Status Open(uint64_t version);
  absl::Status FillChunk() override;
  bool more() const override { return next_chunk_ < reader_->chunks(); }
  SetKey key() const { return KeyOf(request_); }

  grpc::CallbackServerContext& context_;
  const v1::PullParametersRequest& request_;
  std::optional<VersionReader> reader_;
  int next_chunk_ = 0;

  CallTimers::Id timeout_ = 0;
  ParameterStore::Watch watch_ = 0;
  std::atomic<bool> woken_ = false;
  std::atomic<bool> waits_ = false;  // the wait has begun, and nobody has ended it
  bool waited_ = false;              // the wait is over
};

}  // namespace dp::server
