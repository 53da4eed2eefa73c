#include "server/access/gate.h"

#include <grpc/grpc_security_constants.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/name.h"
#include "base/security/certificate.h"
#include "base/status.h"
#include "base/utf8.h"

namespace dp::server {
namespace {

std::string Property(const grpc::AuthContext& context, const char* name) {
  const std::vector<grpc::string_ref> values = context.FindPropertyValues(name);
  return values.empty() ? "" : std::string(values.front().data(), values.front().size());
}

// Errors: Unauthenticated.
absl::StatusOr<Caller> HolderOf(const std::string& pem) {
  DP_ASSIGN_OR_RETURN(const security::Certificate certificate, security::Certificate::FromPem(pem));
  Caller caller{.kind = Caller::Kind::kCertificate,
                .certified_at = certificate.not_before(),
                .expires_at = certificate.not_after()};
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
  if (IsUtf8(name) && IsPlainText(name)) return caller;
  return absl::InvalidArgumentError("the name in it has control characters, or is not UTF-8");
}

}  // namespace

std::string CertificateOf(const grpc::CallbackServerContext& context) {
  return Property(*context.auth_context(), GRPC_X509_PEM_CERT_PROPERTY_NAME);
}

Gate::Gate(Driver& driver, Options options) : driver_(driver), options_(std::move(options)) {}

Admission Gate::Admit(const grpc::CallbackServerContext& context, Rpc rpc, AccessObject object) {
  Caller caller{.peer = context.peer()};
  absl::Status identified = Identify(context, caller);
  return {driver_, refusals_, rpc, std::move(caller), std::move(object), std::move(identified)};
}

absl::Status Gate::Identify(const grpc::CallbackServerContext& context, Caller& caller) {
  const auto proof = context.auth_context();
  const std::string transport = Property(*proof, GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
  if (transport != GRPC_TLS_TRANSPORT_SECURITY_TYPE) {
    if (options_.plain_text) caller.kind = Caller::Kind::kInsecure;
    return absl::OkStatus();
  }
  const auto token = context.client_metadata().find(security::kTokenMetadata);
  if (token != context.client_metadata().end() && options_.token_key.has_value()) {
    DP_ASSIGN_OR_RETURN(
        caller.rank, options_.token_key->CheckRank({token->second.data(), token->second.size()}));
    caller.kind = Caller::Kind::kRank;
    return absl::OkStatus();
  }
  const std::string pem = CertificateOf(context);
  if (pem.empty()) return absl::OkStatus();
  DP_RETURN_IF_ERROR(IdentifyByCertificate(pem, caller));
  // A connection may last longer than its certificate.
  if (absl::Now() < caller.expires_at) return absl::OkStatus();
  return absl::UnauthenticatedError(absl::StrCat("the certificate of ", ToString(caller),
                                                 " expired at ",
                                                 absl::FormatTime(caller.expires_at)));
}

absl::Status Gate::IdentifyByCertificate(const std::string& pem, Caller& caller) {
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
