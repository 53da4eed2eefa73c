#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "grpcpp/grpcpp.h"
#include "server/access/admission.h"
#include "server/convert/convert_call.h"
#include "server/parameters/parameters.h"
#include "server/rpc/parameters/stream_progress.h"

// The streams of the parameter service share these. A call goes through steps, on the threads of
// gRPC, the driver, the service and a table. One of them at a time has the call: each ends it on an
// error, or hands it on. Tasks that are under way share the call, which ends with the last of them.

namespace dp::server {

template <typename Reactor>
class StreamCall : public Reactor, public std::enable_shared_from_this<StreamCall<Reactor>> {
 public:
  void OnDone() override {
    progress_.Done();
    const auto last = std::move(self_);
  }

 protected:
  using Step = std::function<absl::Status()>;

  StreamCall(Admission admission, Parameters& parameters, grpc::CallbackServerContext& context)
      : admission_(std::move(admission)),
        parameters_(parameters),
        progress_(parameters.timers, context) {}

  // gRPC has the call from now on.
  void Hold() { self_ = this->shared_from_this(); }
  // Lets the driver check the caller.
  absl::Status AskDriver() {
    return admission_.Ask(
        [self = this->shared_from_this()](const absl::Status& status, const View& view) {
          self->FinishOnError(status.ok() ? self->Admitted(view) : status);
        });
  }
  // The step after that, on the driver's thread.
  virtual absl::Status Admitted(const View& view) = 0;
  // Runs a step on the service's threads.
  absl::Status Submit(Step step) {
    return parameters_.threads.Submit(
        [self = this->shared_from_this(), step = std::move(step)] { self->FinishOnError(step()); });
  }
  // The call waits for others. Errors: Unavailable too many do.
  absl::Status BeginWait() {
    DP_ASSIGN_OR_RETURN(wait_, parameters_.waits.Take(NameOfCaller()));
    return absl::OkStatus();
  }
  // Data move from now on. Runs the step once the call has a place among the streams.
  void Stream(Step step) {
    parameters_.streams.Await(Tenant(), [self = this->shared_from_this(),
                                         step = std::move(step)](CallPlaces::Place place) {
      self->stream_ = std::move(place);
      self->wait_.reset();
      self->FinishOnError(self->Submit(step));
    });
  }
  void FinishOnError(const absl::Status& status) {
    if (!status.ok()) this->Finish(ToGrpc(status));
  }

  Admission admission_;
  Parameters& parameters_;
  StreamProgress progress_;

 private:
  // Empty: in plain text.
  std::string NameOfCaller() const {
    const Caller& caller = admission_.caller();
    return caller.kind == Caller::Kind::kInsecure ? "" : ToString(caller);
  }
  // All ranks of a job together; else as NameOfCaller.
  std::string Tenant() const {
    const Caller& caller = admission_.caller();
    if (caller.kind != Caller::Kind::kRank) return NameOfCaller();
    return absl::StrCat("job ", caller.rank.rank.job.ToString());
  }

  std::shared_ptr<StreamCall> self_;  // until gRPC is done with the call
  CallPlaces::Place wait_;
  CallPlaces::Place stream_;
};

// A stream from the client. The driver checks the caller by the first message, which has a header.
// Only then the data are taken.
template <typename Request>
class PushCall : public StreamCall<grpc::ServerReadReactor<Request>> {
 public:
  // Called once, before gRPC has the call.
  void Start() {
    this->Hold();
    Read();
  }
  void OnReadDone(bool ok) override {
    this->progress_.Came();
    if (ok) {
      const bool first = !std::exchange(begun_, true);
      return this->FinishOnError(first ? TakeHeader() : this->Submit([this] { return Take(); }));
    }
    if (begun_) return this->FinishOnError(this->Submit([this] { return Complete(); }));
    this->FinishOnError(
        absl::InvalidArgumentError("the stream has ended before its first message"));
  }

 protected:
  using StreamCall<grpc::ServerReadReactor<Request>>::StreamCall;

  void Read() {
    this->progress_.Await(this->shared_from_this());
    this->StartRead(&request_);
  }
  // The call about what the header names.
  virtual Admission AboutHeader() const = 0;
  // Takes the data of request_, and reads on.
  virtual absl::Status Take() = 0;
  // The client has sent all.
  virtual absl::Status Complete() = 0;

  Request request_;  // of the read in flight, then of its task
  Request header_;   // the first message, without data

 private:
  absl::Status TakeHeader() {
    header_ = request_;
    header_.clear_data();
    this->admission_ = AboutHeader();
    return this->AskDriver();
  }

  bool begun_ = false;  // the first message was read
};

// A stream to the client, in chunks that are made as the client takes them.
template <typename Response>
class PullCall : public StreamCall<grpc::ServerWriteReactor<Response>> {
 public:
  // Called once, before gRPC has the call.
  void Start() {
    this->Hold();
    this->FinishOnError(this->AskDriver());
  }
  void OnWriteDone(bool ok) override {
    this->progress_.Came();
    if (!ok) return this->FinishOnError(absl::CancelledError("the client went away"));
    response_.Clear();
    if (!more()) return this->Finish(grpc::Status::OK);
    this->FinishOnError(this->Submit([this] { return SendChunk(); }));
  }

 protected:
  using StreamCall<grpc::ServerWriteReactor<Response>>::StreamCall;

  absl::Status SendChunk() {
    DP_RETURN_IF_ERROR(FillChunk());
    this->progress_.Await(this->shared_from_this());
    this->StartWrite(&response_);
    return absl::OkStatus();
  }
  // Puts the next chunk into response_, if there is one.
  virtual absl::Status FillChunk() = 0;
  // Whether chunks are left.
  virtual bool more() const = 0;

  Response response_;  // of the write in flight
};

}  // namespace dp::server
