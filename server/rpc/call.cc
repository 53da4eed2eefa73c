#include "server/rpc/call.h"

#include <utility>

#include "base/check.h"
#include "server/convert/convert_call.h"

namespace dp::server {
namespace {

// A parked call; deletes itself when gRPC is done with it.
class WaitingCall final : public grpc::ServerUnaryReactor {
 public:
  using Answer = std::function<std::optional<absl::Status>(const View&, bool last)>;

  WaitingCall(const Admission& admission, Answer answer)
      : admission_(admission), ticket_(admission.NewTicket()), answer_(std::move(answer)) {}

  void Start(std::vector<core::Topic> topics, absl::Duration timeout,
             std::optional<BlockedCall> blocked) {
    const absl::Status queued = admission_.Wait(
        ticket_, std::move(topics), timeout,
        [this](Waiters::Wake wake, const View& view) { return Answered(wake, view); },
        std::move(blocked));
    if (!queued.ok()) Finish(ToGrpc(queued));
  }

  void OnCancel() override { admission_.Cancel(ticket_); }
  void OnDone() override { delete this; }

 private:
  bool Answered(Waiters::Wake wake, const View& view) {
    std::optional<absl::Status> status;
    if (wake == Waiters::Wake::kChanged || wake == Waiters::Wake::kDeadline) {
      status = answer_(view, wake == Waiters::Wake::kDeadline);
    } else {
      status = EndOfWait(wake, view.failure);
    }
    if (status) Finish(ToGrpc(*status));
    return status.has_value();
  }

  const Admission admission_;
  const Waiters::Ticket ticket_;
  const Answer answer_;
};

}  // namespace

grpc::ServerUnaryReactor* Ask(const Admission& admission, grpc::CallbackServerContext* context,
                              std::function<absl::Status(const View&)> answer) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::Status queued = admission.Ask(
      [reactor, answer = std::move(answer)](const absl::Status& status, const View& view) {
        reactor->Finish(ToGrpc(status.ok() ? answer(view) : status));
      });
  if (!queued.ok()) reactor->Finish(ToGrpc(queued));
  return reactor;
}

grpc::ServerUnaryReactor* Apply(
    const Admission& admission, grpc::CallbackServerContext* context, core::Action action,
    std::function<absl::Status(const core::Outcome&, const View&)> answer) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::Status queued = admission.Submit(
      std::move(action),
      [reactor, answer = std::move(answer)](const core::Outcome& outcome, const View& view) {
        reactor->Finish(ToGrpc(outcome.status.ok() ? answer(outcome, view) : outcome.status));
      });
  if (!queued.ok()) reactor->Finish(ToGrpc(queued));
  return reactor;
}

grpc::ServerUnaryReactor* Wait(const Admission& admission, std::vector<core::Topic> topics,
                               absl::Duration timeout, WaitingCall::Answer answer,
                               std::optional<BlockedCall> blocked) {
  auto* call = new WaitingCall(admission, std::move(answer));
  call->Start(std::move(topics), timeout, std::move(blocked));
  return call;
}

grpc::ServerUnaryReactor* Refuse(const Admission& admission, grpc::CallbackServerContext* context,
                                 const absl::Status& status) {
  return Ask(admission, context, [status](const View&) { return status; });
}

void FinishOnError(grpc::ServerUnaryReactor* call, const absl::Status& status) {
  if (!status.ok()) call->Finish(ToGrpc(status));
}

absl::Status EndOfWait(Waiters::Wake wake, const absl::Status& failure) {
  switch (wake) {
    case Waiters::Wake::kCancelled:
      return absl::CancelledError("the client went away");
    case Waiters::Wake::kStopping:
      return Driver::Ended(failure);
    case Waiters::Wake::kRefused:
      return absl::UnavailableError("too many calls wait already; try again later");
    case Waiters::Wake::kDenied:
      return failure;
    case Waiters::Wake::kChanged:
    case Waiters::Wake::kDeadline:
      break;
  }
  DP_CHECK(false);
  return absl::OkStatus();
}

}  // namespace dp::server
