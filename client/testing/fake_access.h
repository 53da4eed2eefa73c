#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/security/certificate.h"
#include "base/security/certificate_authority.h"
#include "base/security/credential.h"
#include "base/security/token.h"
#include "client/testing/in_process.h"
#include "dp/v1/access.grpc.pb.h"

namespace dp::client {

// For tests: a coordinator that listens with TLS on a port of loopback and serves Access alone. It
// gives a certificate to everybody who asks, and records the requests. Thread-safe.
class FakeAccess final : public v1::Access::Service {
 public:
  // The server proves itself with this in its certificate, which was made then.
  explicit FakeAccess(const security::Grant& own = {.identity = {security::Role::kCoordinator,
                                                                 "dp"},
                                                    .hosts = {"elsewhere.example.org"},
                                                    .lifetime = absl::Hours(1)},
                      absl::Time made_at = absl::Now()) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", ServerTls(own, made_at), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    DP_CHECK(server_ != nullptr);
  }
  ~FakeAccess() override { server_->Shutdown(gpr_now(GPR_CLOCK_REALTIME)); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  const security::CertificateAuthority& authority() const { return authority_; }
  // With a certificate that was made then.
  security::Credential CredentialOf(const security::Identity& identity,
                                    absl::Time made_at = absl::Now()) const {
    const security::KeyPair key = security::KeyPair::Make();
    return {.authorities = authority_.certificate().ToPem(),
            .chain = Issue(key.SigningRequest(), identity, made_at),
            .key = key.ToPem()};
  }
  std::string JoinToken(const security::Identity& identity) const {
    return security::TokenKey::Make().JoinToken(
        {.expires_at = absl::Now() + absl::Hours(1),
         .fingerprint = authority_.certificate().Fingerprint(),
         .identity = identity});
  }

  // Every call fails with this status from now on, unless it is OK.
  void RefuseWith(const absl::Status& status) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    refusal_ = status;
  }
  // The calls so far, and who made them: "enroll worker w host h by admin root", "renew by worker
  // w", "whoami by token t". A caller without certificate and token is "nobody".
  std::vector<std::string> heard() const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return heard_;
  }

 private:
  static constexpr absl::Duration kLifetime = absl::Hours(24);

  grpc::Status Enroll(grpc::ServerContext* context, const v1::EnrollRequest* request,
                      v1::EnrollResponse* response) override {
    security::Identity identity{security::Role::kWorker, request->name()};
    if (const auto claims = security::ReadJoinToken(request->token()); claims.ok()) {
      identity.role = claims->identity.role;
      if (!claims->identity.name.empty()) identity.name = claims->identity.name;
    }
    if (identity.name.empty()) identity.name = request->host();
    response->mutable_certificate()->set_chain(
        Issue(request->signing_request(), identity, absl::Now()));
    response->mutable_certificate()->set_authorities(authority_.certificate().ToPem());
    return Hear(absl::StrCat("enroll ", security::ToString(identity), " host ", request->host()),
                *context);
  }
  grpc::Status Renew(grpc::ServerContext* context, const v1::RenewRequest* request,
                     v1::RenewResponse* response) override {
    const auto identity = CallerOf(*context);
    if (!identity.ok()) return ToGrpc(identity.status());
    response->mutable_certificate()->set_chain(
        Issue(request->signing_request(), *identity, absl::Now()));
    response->mutable_certificate()->set_authorities(authority_.certificate().ToPem());
    return Hear("renew", *context);
  }
  grpc::Status WhoAmI(grpc::ServerContext* context, const v1::WhoAmIRequest*,
                      v1::WhoAmIResponse*) override {
    return Hear("whoami", *context);
  }

  grpc::Status Hear(const std::string& what, const grpc::ServerContext& context) DP_EXCLUDES(mu_) {
    const auto caller = CallerOf(context);
    const auto token = context.client_metadata().find(security::kTokenMetadata);
    std::string by = caller.ok() ? security::ToString(*caller) : "nobody";
    if (token != context.client_metadata().end()) {
      by = absl::StrCat("token ", std::string(token->second.data(), token->second.size()));
    }
    MutexLock lock(mu_);
    heard_.push_back(absl::StrCat(what, " by ", by));
    return ToGrpc(refusal_);
  }
  static absl::StatusOr<security::Identity> CallerOf(const grpc::ServerContext& context) {
    const auto shown = context.auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
    if (shown.empty()) return absl::UnauthenticatedError("no certificate");
    const auto certificate =
        security::Certificate::FromPem({shown.front().data(), shown.front().size()});
    return certificate.ok() ? certificate->identity() : certificate.status();
  }
  std::string Issue(const std::string& signing_request, const security::Identity& identity,
                    absl::Time made_at) const {
    const auto issued =
        authority_.Issue(signing_request, {.identity = identity, .lifetime = kLifetime}, made_at);
    DP_CHECK(issued.ok());
    return issued->ToPem();
  }
  std::shared_ptr<grpc::ServerCredentials> ServerTls(const security::Grant& own,
                                                     absl::Time made_at) const {
    const security::KeyPair key = security::KeyPair::Make();
    const auto certificate = authority_.Issue(key.SigningRequest(), own, made_at);
    const std::string authority = authority_.certificate().ToPem();
    grpc::experimental::TlsServerCredentialsOptions options(
        std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
            authority, std::vector<grpc::experimental::IdentityKeyCertPair>{
                           {key.ToPem(), certificate->ToPem() + authority}}));
    options.watch_root_certs();
    options.watch_identity_key_cert_pairs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
    return grpc::experimental::TlsServerCredentials(options);
  }

  const security::CertificateAuthority authority_ =
      security::CertificateAuthority::Make(absl::Now());
  mutable Mutex mu_;
  absl::Status refusal_ DP_GUARDED_BY(mu_);
  std::vector<std::string> heard_ DP_GUARDED_BY(mu_);
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;  // last: its calls use the others
};

}  // namespace dp::client
