#include "client/grpc_connection.h"

#include <algorithm>
#include <atomic>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "client/grpc_channel.h"
#include "client/grpc_park_stream.h"

namespace dp::client {
namespace {

// How long a call waits for the channel to connect before it fails for lack of a connection.
constexpr absl::Duration kConnectPatience = absl::Milliseconds(500);

gpr_timespec DeadlineIn(absl::Duration in) {
  // A day stands in for ever, as in base/mutex.h.
  const absl::Duration bounded = std::clamp(in, absl::ZeroDuration(), absl::Hours(24));
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(absl::ToInt64Nanoseconds(bounded), GPR_TIMESPAN));
}

// Whether the coordinator's gRPC ended the call because its memory was short (--memory-max).
// Rejections by the coordinator itself are different: they last until something is freed. HTTP/2's
// code 11 is ENHANCE_YOUR_CALM.
bool EndedForMemory(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
         absl::EndsWith(status.error_message(), "RST_STREAM with error code 11");
}

}  // namespace

GrpcConnection::GrpcConnection(const std::string& address)
    : address_(address),
      channel_(MakeChannel(address)),
      jobs_(v1::Jobs::NewStub(channel_)),
      workers_(v1::Workers::NewStub(channel_)),
      worlds_(v1::Worlds::NewStub(channel_)),
      store_(v1::Store::NewStub(channel_)),
      logs_(v1::Logs::NewStub(channel_)),
      checkpoints_(v1::Checkpoints::NewStub(channel_)) {}

GrpcConnection::~GrpcConnection() {
  MutexLock lock(mu_);
  DP_CHECK(under_way_.empty());
  while (holds_ > 0) changed_.Wait(mu_);
}

std::shared_ptr<void> GrpcConnection::Hold() {
  MutexLock lock(mu_);
  ++holds_;
  return {this, [](GrpcConnection* connection) {
            MutexLock lock(connection->mu_);
            --connection->holds_;
            connection->changed_.NotifyAll();
          }};
}

void GrpcConnection::CancelAll() {
  MutexLock lock(mu_);
  cancelled_ = true;
  // Under the lock, because a context may be gone once its call has left the set; TryCancel never
  // blocks.
  for (grpc::ClientContext* context : under_way_) context->TryCancel();
}

bool GrpcConnection::all_cancelled() const {
  MutexLock lock(mu_);
  return cancelled_;
}

void GrpcConnection::Begin(grpc::ClientContext& context) {
  MutexLock lock(mu_);
  under_way_.insert(&context);
  // Also works before the call has begun: the call then ends as soon as it begins.
  if (cancelled_) context.TryCancel();
}

void GrpcConnection::End(grpc::ClientContext& context) {
  MutexLock lock(mu_);
  under_way_.erase(&context);
}

// A channel connects only while somebody waits on it. A call that failed at once would leave the
// connection half made during the pause that follows, which can be longer than the attempt.
void GrpcConnection::AwaitConnected(absl::Duration deadline_in) {
  if (channel_->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY) return;
  // Without a connection the call itself reports why there is none.
  channel_->WaitForConnected(DeadlineIn(std::min(deadline_in / 2, kConnectPatience)));
}

// The codes of both libraries are the same numbers, by their common specification.
absl::Status GrpcConnection::ToAbsl(const grpc::Status& status, bool cancelled_here) const {
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  // gRPC's server cancels the calls that it finds while it shuts down.
  if (code == absl::StatusCode::kCancelled && !cancelled_here) {
    return absl::UnavailableError(
        absl::StrCat("coordinator at ", address_,
                     ": the coordinator is stopping and has dropped the call; whether a command "
                     "took effect is not known"));
  }
  if (EndedForMemory(status)) {
    return absl::UnavailableError(
        absl::StrCat("coordinator at ", address_,
                     ": the coordinator dropped the call for lack of memory; if this persists, "
                     "raise dp-coordinator --memory-max"));
  }
  if (code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded) {
    return absl::Status(code,
                        absl::StrCat("coordinator at ", address_, ": ", status.error_message()));
  }
  return absl::Status(code, status.error_message());
}

template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> GrpcConnection::Call(
    Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
    const Request& request, absl::Duration deadline_in) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(deadline_in));
  Response response;
  AwaitConnected(deadline_in);
  Begin(context);
  const grpc::Status status = (stub.*method)(&context, request, &response);
  End(context);
  if (!status.ok()) return ToAbsl(status, all_cancelled());
  return response;
}

absl::StatusOr<v1::SubmitResponse> GrpcConnection::Submit(const v1::SubmitRequest& request,
                                                          absl::Duration deadline_in) {
  return Call(*jobs_, &v1::Jobs::Stub::Submit, request, deadline_in);
}

absl::StatusOr<v1::GetJobResponse> GrpcConnection::GetJob(const v1::GetJobRequest& request,
                                                          absl::Duration deadline_in) {
  return Call(*jobs_, &v1::Jobs::Stub::Get, request, deadline_in);
}

absl::StatusOr<v1::ListJobsResponse> GrpcConnection::ListJobs(const v1::ListJobsRequest& request,
                                                              absl::Duration deadline_in) {
  return Call(*jobs_, &v1::Jobs::Stub::List, request, deadline_in);
}

absl::StatusOr<v1::WatchJobResponse> GrpcConnection::WatchJob(const v1::WatchJobRequest& request,
                                                              absl::Duration deadline_in) {
  return Call(*jobs_, &v1::Jobs::Stub::Watch, request, deadline_in);
}

absl::StatusOr<v1::CancelResponse> GrpcConnection::Cancel(const v1::CancelRequest& request,
                                                          absl::Duration deadline_in) {
  return Call(*jobs_, &v1::Jobs::Stub::Cancel, request, deadline_in);
}

absl::StatusOr<v1::PlanResponse> GrpcConnection::Plan(const v1::PlanRequest& request,
                                                      absl::Duration deadline_in) {
  return Call(*jobs_, &v1::Jobs::Stub::Plan, request, deadline_in);
}

absl::StatusOr<v1::HoldResponse> GrpcConnection::Hold(const v1::HoldRequest& request,
                                                      absl::Duration deadline_in) {
  return Call(*jobs_, &v1::Jobs::Stub::Hold, request, deadline_in);
}

absl::StatusOr<v1::ReleaseResponse> GrpcConnection::Release(const v1::ReleaseRequest& request,
                                                            absl::Duration deadline_in) {
  return Call(*jobs_, &v1::Jobs::Stub::Release, request, deadline_in);
}

absl::StatusOr<v1::SetPriorityResponse> GrpcConnection::SetPriority(
    const v1::SetPriorityRequest& request, absl::Duration deadline_in) {
  return Call(*jobs_, &v1::Jobs::Stub::SetPriority, request, deadline_in);
}

absl::StatusOr<v1::RequeueResponse> GrpcConnection::Requeue(const v1::RequeueRequest& request,
                                                            absl::Duration deadline_in) {
  return Call(*jobs_, &v1::Jobs::Stub::Requeue, request, deadline_in);
}

absl::StatusOr<v1::WatchEventsResponse> GrpcConnection::WatchEvents(
    const v1::WatchEventsRequest& request, absl::Duration deadline_in) {
  return Call(*jobs_, &v1::Jobs::Stub::WatchEvents, request, deadline_in);
}

absl::StatusOr<v1::RegisterResponse> GrpcConnection::Register(const v1::RegisterRequest& request,
                                                              absl::Duration deadline_in) {
  return Call(*workers_, &v1::Workers::Stub::Register, request, deadline_in);
}

absl::StatusOr<v1::HeartbeatResponse> GrpcConnection::Heartbeat(const v1::HeartbeatRequest& request,
                                                                absl::Duration deadline_in) {
  return Call(*workers_, &v1::Workers::Stub::Heartbeat, request, deadline_in);
}

absl::StatusOr<v1::WatchAssignmentResponse> GrpcConnection::WatchAssignment(
    const v1::WatchAssignmentRequest& request, absl::Duration deadline_in) {
  return Call(*workers_, &v1::Workers::Stub::WatchAssignment, request, deadline_in);
}

absl::StatusOr<v1::ReportRankResponse> GrpcConnection::ReportRank(
    const v1::ReportRankRequest& request, absl::Duration deadline_in) {
  return Call(*workers_, &v1::Workers::Stub::ReportRank, request, deadline_in);
}

absl::StatusOr<v1::ReportSlotsResponse> GrpcConnection::ReportSlots(
    const v1::ReportSlotsRequest& request, absl::Duration deadline_in) {
  return Call(*workers_, &v1::Workers::Stub::ReportSlots, request, deadline_in);
}

absl::StatusOr<v1::ListWorkersResponse> GrpcConnection::ListWorkers(
    const v1::ListWorkersRequest& request, absl::Duration deadline_in) {
  return Call(*workers_, &v1::Workers::Stub::List, request, deadline_in);
}

absl::StatusOr<v1::DrainResponse> GrpcConnection::Drain(const v1::DrainRequest& request,
                                                        absl::Duration deadline_in) {
  return Call(*workers_, &v1::Workers::Stub::Drain, request, deadline_in);
}

absl::StatusOr<v1::UndrainResponse> GrpcConnection::Undrain(const v1::UndrainRequest& request,
                                                            absl::Duration deadline_in) {
  return Call(*workers_, &v1::Workers::Stub::Undrain, request, deadline_in);
}

absl::StatusOr<v1::WatchWorkersResponse> GrpcConnection::WatchWorkers(
    const v1::WatchWorkersRequest& request, absl::Duration deadline_in) {
  return Call(*workers_, &v1::Workers::Stub::Watch, request, deadline_in);
}

absl::StatusOr<v1::JoinResponse> GrpcConnection::Join(const v1::JoinRequest& request,
                                                      absl::Duration deadline_in) {
  return Call(*worlds_, &v1::Worlds::Stub::Join, request, deadline_in);
}

absl::StatusOr<v1::WatchWorldResponse> GrpcConnection::WatchWorld(
    const v1::WatchWorldRequest& request, absl::Duration deadline_in) {
  return Call(*worlds_, &v1::Worlds::Stub::Watch, request, deadline_in);
}

absl::StatusOr<v1::CompleteFirstStepResponse> GrpcConnection::CompleteFirstStep(
    const v1::CompleteFirstStepRequest& request, absl::Duration deadline_in) {
  return Call(*worlds_, &v1::Worlds::Stub::CompleteFirstStep, request, deadline_in);
}

absl::StatusOr<v1::AccuseResponse> GrpcConnection::Accuse(const v1::AccuseRequest& request,
                                                          absl::Duration deadline_in) {
  return Call(*worlds_, &v1::Worlds::Stub::Accuse, request, deadline_in);
}

absl::StatusOr<v1::ExecuteResponse> GrpcConnection::Execute(const v1::ExecuteRequest& request,
                                                            absl::Duration deadline_in) {
  return Call(*store_, &v1::Store::Stub::Execute, request, deadline_in);
}

absl::StatusOr<v1::AwaitResponse> GrpcConnection::Await(const v1::AwaitRequest& request,
                                                        absl::Duration deadline_in) {
  return Call(*store_, &v1::Store::Stub::Await, request, deadline_in);
}

absl::StatusOr<v1::ListWaitersResponse> GrpcConnection::ListWaiters(
    const v1::ListWaitersRequest& request, absl::Duration deadline_in) {
  return Call(*store_, &v1::Store::Stub::ListWaiters, request, deadline_in);
}

absl::StatusOr<v1::AppendLogsResponse> GrpcConnection::AppendLogs(
    const v1::AppendLogsRequest& request, absl::Duration deadline_in) {
  return Call(*logs_, &v1::Logs::Stub::Append, request, deadline_in);
}

absl::StatusOr<v1::ReadLogsResponse> GrpcConnection::ReadLogs(const v1::ReadLogsRequest& request,
                                                              absl::Duration deadline_in) {
  return Call(*logs_, &v1::Logs::Stub::Read, request, deadline_in);
}

absl::StatusOr<v1::RegisterCheckpointResponse> GrpcConnection::RegisterCheckpoint(
    const v1::RegisterCheckpointRequest& request, absl::Duration deadline_in) {
  return Call(*checkpoints_, &v1::Checkpoints::Stub::Register, request, deadline_in);
}

absl::StatusOr<v1::ListCheckpointsResponse> GrpcConnection::ListCheckpoints(
    const v1::ListCheckpointsRequest& request, absl::Duration deadline_in) {
  return Call(*checkpoints_, &v1::Checkpoints::Stub::List, request, deadline_in);
}

absl::StatusOr<v1::RegisterWeightsResponse> GrpcConnection::RegisterWeights(
    const v1::RegisterWeightsRequest& request, absl::Duration deadline_in) {
  return Call(*checkpoints_, &v1::Checkpoints::Stub::RegisterWeights, request, deadline_in);
}

template <typename Request, typename Response>
struct GrpcConnection::AsyncCall {
  // For the caller, who may keep it longer than gRPC keeps the call.
  struct Handle final : StoreLink::Call {
    explicit Handle(std::weak_ptr<AsyncCall> call) : call(std::move(call)) {}
    void Cancel() override {
      const auto begun = call.lock();
      if (begun == nullptr) return;
      begun->cancelled = true;
      begun->context.TryCancel();
    }
    const std::weak_ptr<AsyncCall> call;
  };

  std::shared_ptr<void> hold;  // first, so that the context is destroyed before it
  std::atomic<bool> cancelled = false;
  grpc::ClientContext context;
  Request request;
  Response response;
  Done<Response> done;
};

template <typename Request, typename Response>
std::shared_ptr<GrpcConnection::AsyncCall<Request, Response>> GrpcConnection::BeginAsync(
    Request request, absl::Duration deadline_in, Done<Response> done) {
  auto call = std::make_shared<AsyncCall<Request, Response>>();
  call->hold = Hold();
  call->context.set_deadline(DeadlineIn(deadline_in));
  call->request = std::move(request);
  call->done = std::move(done);
  Begin(call->context);
  return call;
}

template <typename Started>
std::shared_ptr<StoreLink::Call> GrpcConnection::HandleOf(const std::shared_ptr<Started>& call) {
  return std::make_shared<typename Started::Handle>(call);
}

template <typename Started>
std::function<void(grpc::Status)> GrpcConnection::EndOf(std::shared_ptr<Started> call) {
  return [this, call = std::move(call)](const grpc::Status& status) {
    const bool cancelled_here = call->cancelled || all_cancelled();
    const absl::Status result = status.ok() ? absl::OkStatus() : ToAbsl(status, cancelled_here);
    End(call->context);  // from here on only the call keeps this object alive
    if (result.ok()) {
      std::move(call->done)(std::move(call->response));
    } else {
      std::move(call->done)(result);
    }
  };
}

std::shared_ptr<StoreLink::Call> GrpcConnection::StartExecute(v1::ExecuteRequest request,
                                                              absl::Duration deadline_in,
                                                              Done<v1::ExecuteResponse> done) {
  auto call = BeginAsync(std::move(request), deadline_in, std::move(done));
  store_->async()->Execute(&call->context, &call->request, &call->response, EndOf(call));
  return HandleOf(call);
}

std::shared_ptr<StoreLink::Call> GrpcConnection::StartAwait(v1::AwaitRequest request,
                                                            absl::Duration deadline_in,
                                                            Done<v1::AwaitResponse> done) {
  auto call = BeginAsync(std::move(request), deadline_in, std::move(done));
  store_->async()->Await(&call->context, &call->request, &call->response, EndOf(call));
  return HandleOf(call);
}

std::shared_ptr<AsyncStoreConnection::ParkStream> GrpcConnection::OpenPark() {
  auto stream = std::make_shared<GrpcParkStream>(
      [this, hold = Hold()](grpc::ClientContext& context, const grpc::Status& status, bool closed) {
        End(context);
        return ToAbsl(status, closed || all_cancelled());
      });
  // A day; the channel's keepalive notices sooner that the coordinator has gone.
  stream->context().set_deadline(DeadlineIn(absl::InfiniteDuration()));
  Begin(stream->context());
  stream->Start(*store_);
  return stream;
}

}  // namespace dp::client
