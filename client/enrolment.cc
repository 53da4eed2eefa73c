#include "client/enrolment.h"

#include <openssl/ssl.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file_descriptor.h"
#include "base/security/certificate.h"
#include "base/security/openssl.h"
#include "base/status.h"
#include "client/certificate_validity.h"
#include "client/tls_handshake.h"
#include "dp/v1/access.grpc.pb.h"

namespace dp::client {
namespace {

absl::StatusOr<security::Credential> ToCredential(const absl::StatusOr<v1::EnrollResponse>& answer,
                                                  const security::KeyPair& key) {
  if (!answer.ok()) return answer.status();
  return security::Credential{.authorities = answer->certificate().authorities(),
                              .chain = answer->certificate().chain(),
                              .key = key.ToPem()};
}

std::vector<security::Certificate> ChainShownBy(SSL* ssl) {
  STACK_OF(X509)* const chain = SSL_get_peer_cert_chain(ssl);  // owned by ssl
  std::vector<security::Certificate> certificates;
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    X509_up_ref(sk_X509_value(chain, i));
    certificates.emplace_back(sk_X509_value(chain, i));
  }
  return certificates;
}

v1::EnrollRequest RequestFor(const Applicant& applicant, const security::KeyPair& key) {
  v1::EnrollRequest request;
  request.set_name(applicant.worker);
  request.set_host(applicant.host);
  request.set_signing_request(key.SigningRequest());
  return request;
}

}  // namespace

absl::StatusOr<std::string> FetchAuthority(const std::string& address,
                                           const std::string& fingerprint, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  const SslContextPtr context = Tls13Context();
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);  // by the fingerprint, below
  DP_ASSIGN_OR_RETURN(const FileDescriptor socket, ConnectTo(address, deadline));
  const SslPtr ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), socket.get());
  DP_RETURN_IF_ERROR(Handshake(ssl.get(), socket.get(), address, deadline));
  const std::vector<security::Certificate> chain = ChainShownBy(ssl.get());
  for (const security::Certificate& one : chain) {
    if (one.Fingerprint() != fingerprint) continue;
    // gRPC's own handshake would fail without a reason.
    DP_RETURN_IF_ERROR(CheckValidNow(
        chain.front(), absl::StrCat("the certificate of the coordinator at ", address)));
    return one.ToPem();
  }
  return absl::UnauthenticatedError(absl::StrCat(
      "the coordinator at ", address,
      " is not of the cluster that the token is for; check the address. If the "
      "coordinator has a certificate from elsewhere (--tls-cert), no token leads to it: "
      "name the directory of a credential with --credentials"));
}

absl::StatusOr<security::JoinClaims> ClaimsOf(const std::string& token) {
  absl::StatusOr<security::JoinClaims> claims = security::ReadJoinToken(token);
  if (claims.ok()) return claims;
  return absl::InvalidArgumentError(
      absl::StrCat("'", token.substr(0, 12), "...' is no join token: ", claims.status().message(),
                   "; 'dpctl token' prints one"));
}

absl::StatusOr<security::Credential> EnrolByToken(const std::string& address,
                                                  const std::string& token,
                                                  const Applicant& applicant,
                                                  absl::Duration timeout) {
  DP_ASSIGN_OR_RETURN(const security::JoinClaims claims, ClaimsOf(token));
  DP_ASSIGN_OR_RETURN(const std::string authority,
                      FetchAuthority(address, claims.fingerprint, timeout));
  Connection connection(address, Credentials::Of({.authorities = authority}));
  const security::KeyPair key = security::KeyPair::Make();
  v1::EnrollRequest request = RequestFor(applicant, key);
  request.set_token(token);
  return ToCredential(connection.Call(&v1::Access::Stub::Enroll, request, timeout), key);
}

absl::StatusOr<security::Credential> EnrolByAdministrator(Connection& connection,
                                                          const Applicant& applicant,
                                                          absl::Duration timeout) {
  const security::KeyPair key = security::KeyPair::Make();
  return ToCredential(
      connection.Call(&v1::Access::Stub::Enroll, RequestFor(applicant, key), timeout), key);
}

absl::StatusOr<security::Credential> Renew(Connection& connection,
                                           const security::Credential& credential,
                                           absl::Duration timeout) {
  DP_ASSIGN_OR_RETURN(const security::KeyPair key, security::KeyPair::FromPem(credential.key));
  v1::RenewRequest request;
  request.set_signing_request(key.SigningRequest());
  DP_ASSIGN_OR_RETURN(const v1::RenewResponse response,
                      connection.Call(&v1::Access::Stub::Renew, request, timeout));
  security::Credential renewed = credential;
  renewed.chain = response.certificate().chain();
  if (!response.certificate().authorities().empty()) {
    renewed.authorities = response.certificate().authorities();
  }
  return renewed;
}

absl::StatusOr<bool> RenewalDue(const security::Credential& credential, absl::Time now) {
  DP_ASSIGN_OR_RETURN(const security::Certificate certificate,
                      security::Certificate::FromPem(credential.chain));
  const absl::Duration life = certificate.not_after() - certificate.not_before();
  return certificate.not_after() - now < life / 2;
}

}  // namespace dp::client
