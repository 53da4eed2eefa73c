#include "server/access/gate.h"

#include <grpc/grpc_security_constants.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "base/name.h"
#include "base/security/certificate.h"
#include "base/security/visible_text.h"
#include "base/status.h"
#include "proto/convert/retry_after.h"
#include "server/core/job.h"

namespace dp::server {
namespace {

// Proof of the caller that a connection carries; empty: none. Valid for as long as the context.
struct Proof {
  absl::string_view transport = {};
  absl::string_view pem = {};  // the certificate that the caller has shown
};

// One pass: a context has a dozen properties, and each search by name makes a list of its own.
Proof ProofIn(const grpc::AuthContext& context) {
  Proof proof;
  for (auto it = context.begin(); it != context.end(); ++it) {
    const auto [name, value] = *it;
    const absl::string_view text(value.data(), value.size());
    if (name == GRPC_X509_PEM_CERT_PROPERTY_NAME) {
      proof.pem = text;
    } else if (name == GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME) {
      proof.transport = text;
    }
  }
  return proof;
}

// Errors: Unauthenticated.
absl::StatusOr<Caller> HolderOf(absl::string_view pem) {
  DP_ASSIGN_OR_RETURN(const security::Certificate certificate,
                      security::Certificate::FromPem(std::string(pem)));
  Caller caller{.kind = Caller::Kind::kCertificate,
                .certified_at = certificate.not_before(),
                .expires_at = certificate.not_after(),
                .revoked = std::make_shared<std::atomic<bool>>(false)};
  auto identity = certificate.identity();
  if (identity.ok()) {
    caller.identity = *std::move(identity);
  } else if (absl::IsNotFound(identity.status())) {
    caller.identity = {security::Role::kViewer, certificate.subject()};
    caller.role_must_be_granted = true;
  } else {
    return identity.status();
  }
  // Answers about other callers show it, and hold nothing else.
  const std::string& name = caller.identity.name;
  if (!security::IsVisibleText(name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the name in it is not ", security::kVisibleTextRule, "; use a certificate with another"));
  }
  if (caller.identity.role == security::Role::kWorker && !IsWorkerName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the name in it, '", name, "', is no worker name; use ", kWorkerNameRule));
  }
  // `dpctl revoke` would end the access of another.
  if (const absl::string_view kind = security::KindBefore(name); !kind.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the name in it, '", name, "', begins with ",
                                                   kind, "/; use a certificate without that"));
  }
  if (caller.is_person() && name == core::kLegacyOwner) {
    return absl::InvalidArgumentError(
        absl::StrCat("the name in it, '", name,
                     "', stands for jobs without an owner; use a certificate with another"));
  }
  return caller;
}

// Without the port: all callers at that address.
std::string HostOf(const Caller& caller) { return caller.peer.substr(0, caller.peer.rfind(':')); }

// The name under which the calls of a known caller count. Names cannot be mistaken for each other:
// each begins with what it is. Operations of ranks on their stores are calls of their daemon. They
// cannot cost it the lease, because its heartbeats count apart. A token of an earlier generation is
// known too, but counts no more.
std::string CountedAs(const Caller& caller, bool heartbeat) {
  if (caller.is_person()) return absl::StrCat("person ", caller.identity.name);
  if (caller.kind == Caller::Kind::kRank) {
    return absl::StrCat(ToString(caller), " in generation ", caller.rank.rank.generation.value(),
                        " from ", absl::ToUnixNanos(caller.rank.job_submitted_at));
  }
  return absl::StrCat(heartbeat ? "heartbeats of " : "", ToString(caller));
}

double PerSecond(const CallLimits& limits, const Caller& caller, bool known) {
  if (!known) return limits.of_strangers();
  const bool worker = caller.kind == Caller::Kind::kCertificate && !caller.is_person();
  return worker ? limits.of_worker() : limits.of_caller;
}

std::optional<absl::string_view> TokenOf(const grpc::CallbackServerContext& context) {
  const auto token = context.client_metadata().find(security::kTokenMetadata);
  if (token == context.client_metadata().end()) return std::nullopt;
  return absl::string_view(token->second.data(), token->second.size());
}

// The RPC of dp whose path is in the headers; nullopt: it is of another service, or none.
std::optional<Rpc> RpcAt(absl::string_view path) {
  static const auto& rpcs = *[] {
    auto* const by_path = new absl::flat_hash_map<std::string, Rpc>;
    for (size_t i = 0; i < kRpcNames.size(); ++i) {
      const std::string name = absl::StrReplaceAll(kRpcNames[i], {{".", "/"}});
      by_path->emplace(absl::StrCat("/dp.v1.", name), static_cast<Rpc>(i));
    }
    return by_path;
  }();
  const auto found = rpcs.find(path);
  return found == rpcs.end() ? std::nullopt : std::optional(found->second);
}

// The limit on calls that are not whole, of a caller who may make so many.
double HeadersPerSecond(double calls_per_second) { return calls_per_second / 2; }

// All callers who prove nothing have one name when their calls end with their headers.
constexpr char kStrangers[] = "strangers";

// Programs of dp retry what is Unavailable.
absl::Status TooManyHeaders(absl::string_view who_has) {
  return absl::UnavailableError(
      absl::StrCat(who_has, " begun too many calls without their messages; try again later"));
}

absl::Status TooManyInFlight(absl::string_view who_has) {
  return absl::UnavailableError(
      absl::StrCat(who_has, " too many calls in flight; try again later"));
}

// The thief of a certificate must not use up the rate of the person who has a new one.
bool IsKnown(const absl::Status& identified, const Caller& caller) {
  return identified.ok() && caller.kind != Caller::Kind::kStranger &&
         (caller.revoked == nullptr || !*caller.revoked);
}

}  // namespace

// One call; gRPC destroys it with the call.
class Gate::InFlight final : public grpc::experimental::Interceptor {
 public:
  InFlight(Gate& gate, CallsInFlight::Call call) : gate_(gate), call_(call) {}
  ~InFlight() override { gate_.End(call_); }

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    methods->Proceed();
  }

 private:
  Gate& gate_;
  const CallsInFlight::Call call_;
};

class Gate::Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(Gate& gate) : gate_(gate) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return new InFlight(gate_, info->server_context());
  }

 private:
  Gate& gate_;
};

std::string CertificateOf(const grpc::CallbackServerContext& context) {
  return std::string(ProofIn(*context.auth_context()).pem);
}

Gate::Gate(Driver& driver, Options options)
    : driver_(driver), options_(std::move(options)), strangers_(options_.strangers, refusals_) {}

Admission Gate::Admit(grpc::CallbackServerContext& context, Rpc rpc, AccessObject object) {
  Caller caller{.peer = context.peer()};
  absl::Status identified = Identify(*context.auth_context(), TokenOf(context), caller);
  const bool known = IsKnown(identified, caller);
  if (absl::Status counted = Count(context, rpc, caller, known); !counted.ok()) {
    identified = std::move(counted);
  }
  return {driver_, refusals_, rpc, std::move(caller), std::move(object), std::move(identified)};
}

absl::Status Gate::CheckHeaders(const grpc::AuthContext& connection, absl::string_view path,
                                std::optional<absl::string_view> token) {
  Caller caller;
  absl::Status identified = Identify(connection, token, caller);
  // A wrong token makes no stranger of somebody known.
  if (!identified.ok() && token.has_value()) {
    identified = Identify(connection, std::nullopt, caller);
  }
  const bool known = IsKnown(identified, caller);
  const std::optional<Rpc> rpc = RpcAt(path);
  const absl::Status status = known ? CheckHeadersOf(caller, rpc == Rpc::kWorkersHeartbeat)
                                    : CheckHeadersOfStranger(connection);
  if (!status.ok()) refusals_.CountAtHeaders();
  if (!status.ok() && rpc.has_value() && MayNoteHeaders()) {
    refusals_.Add(known ? caller : Caller(), *rpc, status, absl::Now());
  }
  return status;
}

absl::Status Gate::CheckHeadersOf(const Caller& caller, bool heartbeat) {
  const double calls_per_second = PerSecond(options_.calls, caller, /*known=*/true);
  const std::string name = CountedAs(caller, heartbeat);
  MutexLock lock(mu_);
  if (HasTooManyInFlight(name, calls_per_second)) {
    return TooManyInFlight(absl::StrCat(ToString(caller), " has"));
  }
  const absl::Duration wait =
      rates_of_headers_.Take(name, HeadersPerSecond(calls_per_second), clock_.Now());
  if (wait == absl::ZeroDuration()) return absl::OkStatus();
  return TooManyHeaders(absl::StrCat(ToString(caller), " has"));
}

double Gate::headers_of_strangers() const {
  return std::max(options_.calls.headers_of_strangers, 2 * options_.calls.of_strangers());
}

absl::Status Gate::CheckHeadersOfStranger(const grpc::AuthContext& connection) {
  // Each open connection has a text of its own. A new one may have it where a closed one had its
  // text; for a moment the new one then has fewer calls.
  const auto id = absl::StrCat(reinterpret_cast<uintptr_t>(ProofIn(connection).transport.data()));
  MutexLock lock(mu_);
  const absl::Time now = clock_.Now();
  if (rates_of_new_connections_.Take(id, kFirstCallsPerSecond, now) == absl::ZeroDuration()) {
    return absl::OkStatus();
  }
  if (HasTooManyInFlight(kStrangers, headers_of_strangers())) {
    return TooManyInFlight("callers without a credential have");
  }
  if (rates_of_strangers_headers_.Take(kStrangers, headers_of_strangers(), now) ==
      absl::ZeroDuration()) {
    return absl::OkStatus();
  }
  return TooManyHeaders("callers without a credential have");
}

bool Gate::HasTooManyInFlight(absl::string_view name, double per_second) const {
  const double max =
      std::max<double>(CallLimits::kInFlightAlways, per_second * CallLimits::kInFlightOfRate);
  return static_cast<double>(in_flight_.Of(name)) >= max;
}

bool Gate::MayNoteHeaders() {
  MutexLock lock(mu_);
  return rates_of_notes_.Take("all", kNotesPerSecond, clock_.Now()) == absl::ZeroDuration();
}

absl::Status Gate::Count(grpc::CallbackServerContext& context, Rpc rpc, const Caller& caller,
                         bool known) {
  if (caller.kind == Caller::Kind::kInsecure) return absl::OkStatus();
  if (known) strangers_.Proven(caller.peer);
  const double per_second = PerSecond(options_.calls, caller, known);
  const absl::Duration wait =
      Take(static_cast<const grpc::ServerContextBase*>(&context), known,
           known ? CountedAs(caller, rpc == Rpc::kWorkersHeartbeat) : HostOf(caller), per_second);
  if (wait == absl::ZeroDuration()) return absl::OkStatus();
  const int64_t wait_ms = absl::ToInt64Milliseconds(wait) + 1;
  context.AddTrailingMetadata(kRetryAfterMetadata, absl::StrCat(wait_ms));
  const std::string why =
      absl::StrCat(ToString(caller), " makes more than ", per_second,
                   " calls a second, which is the limit (dp-coordinator --calls-per-second)");
  refusals_.Add(caller, rpc, absl::ResourceExhaustedError(why), absl::Now());
  return absl::ResourceExhaustedError(absl::StrCat(why, "; try again in ", wait_ms, "ms"));
}

absl::Duration Gate::Take(CallsInFlight::Call call, bool known, const std::string& name,
                          double per_second) {
  MutexLock lock(mu_);
  in_flight_.Begin(call, known ? name : kStrangers);
  if (known) {
    rates_of_headers_.GiveBack(name, HeadersPerSecond(per_second));
  } else {
    rates_of_strangers_headers_.GiveBack(kStrangers, headers_of_strangers());
  }
  return (known ? rates_ : rates_of_strangers_).Take(name, per_second, clock_.Now());
}

void Gate::End(CallsInFlight::Call call) {
  MutexLock lock(mu_);
  in_flight_.End(call);
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> Gate::Interceptors() {
  return std::make_unique<Factory>(*this);
}

absl::Status Gate::Identify(const grpc::AuthContext& connection,
                            std::optional<absl::string_view> token, Caller& caller) {
  const Proof proof = ProofIn(connection);
  if (proof.transport != GRPC_TLS_TRANSPORT_SECURITY_TYPE) {
    if (options_.plain_text) caller.kind = Caller::Kind::kInsecure;
    return absl::OkStatus();
  }
  if (token.has_value() && options_.token_key.has_value()) {
    DP_ASSIGN_OR_RETURN(caller.rank, options_.token_key->CheckRank(*token));
    caller.kind = Caller::Kind::kRank;
    return absl::OkStatus();
  }
  if (proof.pem.empty()) return absl::OkStatus();
  DP_RETURN_IF_ERROR(IdentifyByCertificate(proof.pem, caller));
  // A connection may last longer than its certificate.
  if (absl::Now() < caller.expires_at) return absl::OkStatus();
  return CertificateExpired(caller);
}

absl::Status Gate::IdentifyByCertificate(absl::string_view pem, Caller& caller) {
  const std::string peer = std::move(caller.peer);
  {
    MutexLock lock(mu_);
    if (const auto it = parsed_.find(pem); it != parsed_.end()) {
      caller = it->second;
      caller.peer = peer;
      return absl::OkStatus();
    }
  }
  absl::StatusOr<Caller> holder = HolderOf(pem);
  caller.peer = peer;
  if (!holder.ok()) {
    return absl::UnauthenticatedError(
        absl::StrCat("the certificate does not count: ", holder.status().message()));
  }
  caller = *holder;
  caller.peer = peer;
  MutexLock lock(mu_);
  if (parsed_.size() >= kParsedMax) parsed_.clear();
  parsed_.emplace(pem, *std::move(holder));
  return absl::OkStatus();
}

}  // namespace dp::server
