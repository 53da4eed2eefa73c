#include "client/connection.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/grpc_locks.h"
#include "base/limits.h"
#include "base/security/token.h"
#include "client/absence.h"
#include "client/certificate_copies.h"
#include "client/grpc_park_stream.h"
#include "client/retry_policy.h"
#include "dp/v1/store.grpc.pb.h"
#include "proto/convert/retry_after.h"

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

// The longest wait that a coordinator may ask for; it never asks for more than a few calls take.
constexpr absl::Duration kRateWaitMax = absl::Seconds(10);

// Whether the coordinator's gRPC ended the call because its memory was short (--memory-max).
// Rejections by the coordinator itself are different: they last until something is freed. HTTP/2's
// code 11 is ENHANCE_YOUR_CALM.
bool EndedForMemory(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
         absl::EndsWith(status.error_message(), "RST_STREAM with error code 11");
}

// How long the coordinator lets a caller wait that makes calls too fast; nullopt: it was none.
std::optional<absl::Duration> WaitForRate(const grpc::ClientContext& context,
                                          const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) return std::nullopt;
  const auto& trailing = context.GetServerTrailingMetadata();
  const auto found = trailing.find(kRetryAfterMetadata);
  int64_t wait_ms = 0;
  if (found == trailing.end() ||
      !absl::SimpleAtoi(absl::string_view(found->second.data(), found->second.size()), &wait_ms)) {
    return std::nullopt;
  }
  return std::clamp(absl::Milliseconds(wait_ms), absl::ZeroDuration(), kRateWaitMax);
}

// A restarted coordinator is found within about a second. Longer pauses between the channel's own
// attempts to connect would outlast the retries above it.
constexpr int kReconnectMsMin = 100;
constexpr int kReconnectMsMax = 1000;
// How long an attempt to connect may take, with its handshake. A coordinator that thousands call at
// once lets them in in turns (server/connections/handshake_turns.h).
constexpr int kConnectMs = 10'000;
// A peer that vanished without closing the connection (power, cable) is noticed within the sum.
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5'000;

// The meaning of a failed handshake in words; empty: it was none. OpenSSL's texts are constants.
std::string WhyNoHandshake(const std::string& message) {
  if (absl::StrContains(message, "certificate verify failed")) {
    return "its certificate is of another authority than the one that this program trusts, or is "
           "not "
           "valid now by this host's clock; if the cluster is a new one, log in or join again";
  }
  if (absl::StrContains(message, "wrong version number")) {
    return "it does not answer with TLS, so it is not the coordinator of the credential; check the "
           "address";
  }
  if (absl::StrContains(message, "Custom verification check failed")) {
    return "its certificate names neither a coordinator of dp nor the host of this address; check "
           "the "
           "address, or let the certificate (--tls-cert) name the host";
  }
  return "";
}

// gRPC says in words only how far an attempt to connect came. Somebody must be there who resets.
bool ConnectedToNothing(const std::string& message) {
  return (absl::StrContains(message, "Failed to connect to remote host") &&
          !absl::StrContains(message, "reset by peer")) ||
         absl::StrContains(message, "DNS resolution failed");
}

}  // namespace

struct Connection::StoreStub {
  explicit StoreStub(const std::shared_ptr<grpc::Channel>& channel) : stub(channel) {}
  v1::Store::Stub stub;
};

Connection::Connection(const std::string& address, const Credentials& credentials)
    : Connection(address, MakeChannel(address, credentials), credentials.token()) {
  no_credentials_ = credentials.status();
}

Connection::Connection(std::string address, std::shared_ptr<grpc::Channel> channel,
                       std::string token)
    : address_(std::move(address)),
      token_(std::move(token)),
      channel_(std::move(channel)),
      stub_channel_(channel_),
      store_(std::make_unique<StoreStub>(channel_)) {}

std::unique_ptr<Connection> Connection::Share() const {
  std::unique_ptr<Connection> shared(new Connection(address_, channel_, token_));
  shared->no_credentials_ = no_credentials_;
  return shared;
}

Connection::~Connection() {
  MutexLock lock(mu_);
  DP_CHECK(under_way_.empty());
  while (holds_ > 0) changed_.Wait(mu_);
}

std::shared_ptr<void> Connection::Hold() {
  MutexLock lock(mu_);
  ++holds_;
  return {this, [](Connection* connection) {
            MutexLock lock(connection->mu_);
            --connection->holds_;
            connection->changed_.NotifyAll();
          }};
}

void Connection::CancelAll() {
  MutexLock lock(mu_);
  cancelled_ = true;
  // Under the lock, because a context may be gone once its call has left the set; TryCancel never
  // blocks.
  for (grpc::ClientContext* context : under_way_) context->TryCancel();
}

bool Connection::all_cancelled() const {
  MutexLock lock(mu_);
  return cancelled_;
}

void Connection::Begin(grpc::ClientContext& context) {
  MutexLock lock(mu_);
  under_way_.insert(&context);
  // Also works before the call has begun: the call then ends as soon as it begins.
  if (cancelled_) context.TryCancel();
}

void Connection::End(grpc::ClientContext& context) {
  MutexLock lock(mu_);
  under_way_.erase(&context);
}

// A channel connects only while somebody waits on it. A call that failed at once would leave the
// connection half made during the pause that follows, which can be longer than the attempt.
void Connection::AwaitConnected(absl::Duration deadline_in) {
  if (channel_->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY) return;
  // Without a connection the call itself reports why there is none.
  channel_->WaitForConnected(DeadlineIn(std::min(deadline_in / 2, kConnectPatience)));
}

void Connection::AddToken(grpc::ClientContext& context) const {
  if (!token_.empty()) context.AddMetadata(security::kTokenMetadata, token_);
}

// The codes of both libraries are the same numbers, by their common specification.
absl::Status Connection::ToAbsl(const grpc::ClientContext& context, const grpc::Status& status,
                                bool cancelled_here) const {
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
  // In contrast to other limits, this one ends by itself.
  if (const auto wait = WaitForRate(context, status)) {
    return RetryNotBefore(*wait, absl::UnavailableError(absl::StrCat(
                                     "coordinator at ", address_, ": ", status.error_message())));
  }
  if (code == absl::StatusCode::kUnimplemented) {
    return absl::UnimplementedError(
        absl::StrCat("coordinator at ", address_,
                     ": it is of an earlier release than this program, and lacks the call; upgrade "
                     "it first"));
  }
  if (const std::string why = WhyNoHandshake(status.error_message()); !why.empty()) {
    return absl::UnavailableError(absl::StrCat("coordinator at ", address_, ": ", why));
  }
  if (code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded) {
    const absl::Status named(
        code, absl::StrCat("coordinator at ", address_, ": ", status.error_message()));
    return IsUnconnected(status) ? WithAbsence(Absence::kNothingConnected, named) : named;
  }
  return absl::Status(code, status.error_message());
}

bool Connection::IsUnconnected(const grpc::Status& status) const {
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    return ConnectedToNothing(status.error_message());
  }
  return channel_->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_READY;
}

absl::Status Connection::Attempt(absl::Duration deadline_in,
                                 absl::FunctionRef<grpc::Status(grpc::ClientContext&)> call) {
  if (!no_credentials_.ok()) return no_credentials_;
  grpc::ClientContext context;
  Prepare(context, deadline_in);
  AddToken(context);
  Begin(context);
  const grpc::Status status = call(context);
  End(context);
  return status.ok() ? absl::OkStatus() : ToAbsl(context, status, all_cancelled());
}

void Connection::GiveUp(grpc::ClientContext& context) { context.TryCancel(); }

void Connection::Prepare(grpc::ClientContext& context, absl::Duration deadline_in) {
  context.set_deadline(DeadlineIn(deadline_in));
  AwaitConnected(deadline_in);
}

template <typename Request, typename Response>
struct Connection::AsyncCall {
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
std::shared_ptr<Connection::AsyncCall<Request, Response>> Connection::BeginAsync(
    Request request, absl::Duration deadline_in, Done<Response> done) {
  auto call = std::make_shared<AsyncCall<Request, Response>>();
  call->hold = Hold();
  call->context.set_deadline(DeadlineIn(deadline_in));
  call->request = std::move(request);
  call->done = std::move(done);
  AddToken(call->context);
  Begin(call->context);
  return call;
}

template <typename Started>
std::shared_ptr<StoreLink::Call> Connection::HandleOf(const std::shared_ptr<Started>& call) {
  return std::make_shared<typename Started::Handle>(call);
}

template <typename Started>
std::function<void(grpc::Status)> Connection::EndOf(std::shared_ptr<Started> call) {
  return [this, call = std::move(call)](const grpc::Status& status) {
    const bool cancelled_here = call->cancelled || all_cancelled();
    const absl::Status result =
        status.ok() ? absl::OkStatus() : ToAbsl(call->context, status, cancelled_here);
    End(call->context);  // from here on only the call keeps this object alive
    if (result.ok()) {
      std::move(call->done)(std::move(call->response));
    } else {
      std::move(call->done)(result);
    }
  };
}

std::shared_ptr<StoreLink::Call> Connection::StartExecute(v1::ExecuteRequest request,
                                                          absl::Duration deadline_in,
                                                          Done<v1::ExecuteResponse> done) {
  auto call = BeginAsync(std::move(request), deadline_in, std::move(done));
  store_->stub.async()->Execute(&call->context, &call->request, &call->response, EndOf(call));
  return HandleOf(call);
}

std::shared_ptr<StoreLink::Call> Connection::StartAwait(v1::AwaitRequest request,
                                                        absl::Duration deadline_in,
                                                        Done<v1::AwaitResponse> done) {
  auto call = BeginAsync(std::move(request), deadline_in, std::move(done));
  store_->stub.async()->Await(&call->context, &call->request, &call->response, EndOf(call));
  return HandleOf(call);
}

std::shared_ptr<AsyncStoreConnection::ParkStream> Connection::OpenPark() {
  auto stream = std::make_shared<GrpcParkStream>(
      [this, hold = Hold()](grpc::ClientContext& context, const grpc::Status& status, bool closed) {
        End(context);
        return ToAbsl(context, status, closed || all_cancelled());
      });
  // A day; the channel's keepalive notices sooner that the coordinator has gone.
  stream->context().set_deadline(DeadlineIn(absl::InfiniteDuration()));
  AddToken(stream->context());
  Begin(stream->context());
  stream->Start(store_->stub);
  return stream;
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const Credentials& credentials) {
  SearchNoDeadlocksInGrpc();
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMsMin);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMsMax);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, kMessageBytesMax);
  args.SetInt(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, kMessageBytesMax);
  // Two connections of one process share neither a socket nor its failures.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // The coordinator is in the same network; a web proxy would only be in the way.
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Only RetryLoop decides about retries.
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // gRPC reads the copies again as long as there is the channel.
  struct Kept {
    std::shared_ptr<CertificateCopies> copies;
    std::shared_ptr<grpc::Channel> channel;  // ends first
  };
  const auto kept = std::make_shared<Kept>(
      Kept{credentials.copies(), grpc::CreateCustomChannel(address, credentials.channel(), args)});
  return {kept, kept->channel.get()};
}

}  // namespace dp::client
