#pragma once

#include <memory>
#include <string>

#include "base/security/certificate.h"
#include "server/rpc/testing/tls_fixture.h"

namespace dp::server {

// Calls of the Access service to a coordinator over TLS. The callers are the administrator, one
// without a credential, and whoever gets a certificate for key_.
class AccessFixture : public TlsFixture {
 protected:
  void SetUp() override {
    TlsFixture::SetUp();
    admin_ = As({Role::kAdmin, "root"});
    nobody_ = As(Nobody());
  }
  Answered<v1::CreateTokenResponse> CreateToken(const std::string& role, const std::string& name,
                                                int uses, int hours = 1) {
    v1::CreateTokenRequest request;
    request.set_role(role);
    request.set_name(name);
    request.set_uses(uses);
    request.mutable_valid_for()->set_seconds(hours * 3600);
    return admin_->Call(admin_->access(), &v1::Access::Stub::CreateToken, request);
  }
  std::string Token(const std::string& role, const std::string& name, int uses = 1) {
    const auto made = CreateToken(role, name, uses);
    EXPECT_TRUE(made.ok()) << made.status.error_message();
    return made->token();
  }
  Answered<v1::EnrollResponse> Enroll(ClusterClient& caller, const std::string& token,
                                      const std::string& worker = "",
                                      const std::string& host = "host") {
    v1::EnrollRequest request;
    request.set_token(token);
    request.set_name(worker);
    request.set_host(host);
    request.set_signing_request(key_.SigningRequest());
    return caller.Call(caller.access(), &v1::Access::Stub::Enroll, request);
  }
  Answered<v1::RenewResponse> Renew(ClusterClient& caller) {
    v1::RenewRequest request;
    request.set_signing_request(key_.SigningRequest());
    return caller.Call(caller.access(), &v1::Access::Stub::Renew, request);
  }
  static Answered<v1::WhoAmIResponse> Ask(ClusterClient& caller) {
    return caller.Call(caller.access(), &v1::Access::Stub::WhoAmI, {});
  }
  // As "user ann"; an error's message if the call is rejected.
  static std::string WhoIs(ClusterClient& caller) {
    const auto answer = Ask(caller);
    return answer.ok() ? answer->role() + " " + answer->name() : answer.status.error_message();
  }
  Credentials CredentialsIn(const v1::IssuedCertificate& issued) {
    return Showing({key_.ToPem(), issued.chain()});
  }
  template <typename Response>
  static std::string NameIn(const Answered<Response>& answer) {
    const auto certificate = security::Certificate::FromPem(answer->certificate().chain());
    return certificate.ok() ? security::ToString(*certificate->identity())
                            : answer.status.error_message();
  }

  const security::KeyPair key_ = security::KeyPair::Make();
  std::unique_ptr<ClusterClient> admin_;
  std::unique_ptr<ClusterClient> nobody_;
};

}  // namespace dp::server
