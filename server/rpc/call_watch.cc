#include "server/rpc/call_watch.h"

#include <grpc/grpc.h>
#include <pthread.h>

#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"

namespace dp::server {
namespace {

constexpr char kGivenUp[] =
    "the coordinator has ended the call: it lasted too long, or its answer was not taken";

}  // namespace

// One call; gRPC destroys it with the call.
class CallWatch::Watched final : public grpc::experimental::Interceptor {
 public:
  Watched(CallWatch& watch, grpc_call* call) : watch_(watch), id_(watch.Begin(call)) {}
  ~Watched() override { watch_.End(id_); }

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using Point = grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(Point::PRE_SEND_MESSAGE)) {
      watch_.Answer(id_, methods->GetSerializedSendMessage()->Length());
    }
    methods->Proceed();
  }

 private:
  CallWatch& watch_;
  const OpenCalls::Id id_;
};

class CallWatch::Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(CallWatch& watch) : watch_(watch) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    if (info->type() != grpc::experimental::ServerRpcInfo::Type::UNARY) return nullptr;
    return new Watched(watch_, info->server_context()->c_call());
  }

 private:
  CallWatch& watch_;
};

CallWatch::CallWatch(const OpenCalls::Limits& limits) : calls_(limits) {
  thread_ = std::jthread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "dp-call-watch");
}

CallWatch::~CallWatch() {
  MutexLock lock(mu_);
  stopped_ = true;
  changed_.NotifyAll();
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> CallWatch::Interceptors() {
  return std::make_unique<Factory>(*this);
}

OpenCalls::Id CallWatch::Begin(grpc_call* call) {
  DP_CHECK(call != nullptr);
  const absl::Time now = Clock::Steady().Now();
  MutexLock lock(mu_);
  const OpenCalls::Id id = calls_.Begin(now);
  open_.emplace(id, call);
  if (calls_.next_at() < look_at_) changed_.NotifyAll();
  return id;
}

void CallWatch::Answer(OpenCalls::Id id, size_t bytes) {
  const absl::Time now = Clock::Steady().Now();
  MutexLock lock(mu_);
  calls_.Answer(id, bytes, now);
  if (calls_.next_at() < look_at_) changed_.NotifyAll();
}

void CallWatch::End(OpenCalls::Id id) {
  MutexLock lock(mu_);
  calls_.End(id);
  open_.erase(id);
}

// The calls are ended without the lock, since gRPC may then call End on this thread.
void CallWatch::Run() {
  while (true) {
    const std::vector<grpc_call*> overdue = AwaitOverdue();
    if (overdue.empty()) return;
    given_up_.Failed(absl::DeadlineExceededError(kGivenUp));
    for (grpc_call* const call : overdue) {
      (void)grpc_call_cancel_with_status(call, GRPC_STATUS_DEADLINE_EXCEEDED, kGivenUp, nullptr);
      grpc_call_unref(call);
    }
  }
}

std::vector<grpc_call*> CallWatch::AwaitOverdue() {
  std::vector<grpc_call*> overdue;
  MutexLock lock(mu_);
  while (!stopped_ && overdue.empty()) {
    const absl::Time now = Clock::Steady().Now();
    for (const OpenCalls::Id id : calls_.TakeOverdue(now)) {
      const auto call = open_.extract(id);
      grpc_call_ref(call.mapped());  // End, which waits for the lock, precedes its end
      overdue.push_back(call.mapped());
    }
    if (!overdue.empty()) break;
    look_at_ = calls_.next_at();
    changed_.WaitFor(mu_, look_at_ - now);
    look_at_ = absl::InfinitePast();  // it looks in any case
  }
  return overdue;
}

}  // namespace dp::server
