#include "client/enrolment.h"

#include <netdb.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file_descriptor.h"
#include "base/host_port.h"
#include "base/security/certificate.h"
#include "base/security/openssl.h"
#include "base/status.h"
#include "client/absence.h"
#include "dp/v1/access.grpc.pb.h"

namespace dp::client {
namespace {

using SslContextPtr = std::unique_ptr<SSL_CTX, security::Free<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, security::Free<SSL_free>>;
using AddressesPtr = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

absl::Status NoAnswer(const std::string& address, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("coordinator at ", address, ": ", why));
}

absl::Status NothingConnected(const std::string& address, absl::string_view why) {
  return WithAbsence(Absence::kNothingConnected, NoAnswer(address, why));
}

int MillisecondsUntil(absl::Time deadline) {
  return static_cast<int>(
      absl::ToInt64Milliseconds(std::max(deadline - absl::Now(), absl::ZeroDuration())));
}

bool AwaitReady(int fd, short events, absl::Time deadline) {  // NOLINT: poll's type
  pollfd wait{.fd = fd, .events = events, .revents = 0};
  return poll(&wait, 1, MillisecondsUntil(deadline)) == 1;
}

absl::StatusOr<FileDescriptor> ConnectTo(const std::string& address, absl::Time deadline) {
  DP_ASSIGN_OR_RETURN(const HostPort parts, ParseHostPort(address));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int resolved = getaddrinfo(parts.host.c_str(), parts.port.c_str(), &hints, &found);
  if (resolved != 0) return NothingConnected(address, gai_strerror(resolved));
  const AddressesPtr owned(found, freeaddrinfo);
  int error = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    FileDescriptor fd(socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    error = errno;
    if (!fd.valid()) continue;
    if (connect(fd.get(), one->ai_addr, one->ai_addrlen) == 0) return fd;
    error = errno;
    if (error != EINPROGRESS) continue;
    if (!AwaitReady(fd.get(), POLLOUT, deadline)) {
      error = ETIMEDOUT;
      continue;
    }
    socklen_t size = sizeof(error);
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return fd;
  }
  return NothingConnected(address, std::generic_category().message(error));
}

absl::Status Handshake(SSL* ssl, int fd, const std::string& address, absl::Time deadline) {
  for (int result = SSL_connect(ssl); result != 1; result = SSL_connect(ssl)) {
    const int wants = SSL_get_error(ssl, result);
    const bool waits = wants == SSL_ERROR_WANT_READ || wants == SSL_ERROR_WANT_WRITE;
    if (!waits) {
      return NoAnswer(address, security::InvalidBecause("it does not answer with TLS").message());
    }
    if (!AwaitReady(fd, wants == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline)) {
      return NoAnswer(address, "it did not answer in time");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<security::Credential> ToCredential(const absl::StatusOr<v1::EnrollResponse>& answer,
                                                  const security::KeyPair& key) {
  if (!answer.ok()) return answer.status();
  return security::Credential{.authorities = answer->certificate().authorities(),
                              .chain = answer->certificate().chain(),
                              .key = key.ToPem()};
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
  const SslContextPtr context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);  // by the fingerprint, below
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), kHttp2, sizeof(kHttp2));
  DP_ASSIGN_OR_RETURN(const FileDescriptor socket, ConnectTo(address, deadline));
  const SslPtr ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), socket.get());
  DP_RETURN_IF_ERROR(Handshake(ssl.get(), socket.get(), address, deadline));
  STACK_OF(X509)* const chain = SSL_get_peer_cert_chain(ssl.get());  // owned by ssl
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    X509* const certificate = sk_X509_value(chain, i);
    X509_up_ref(certificate);
    const security::Certificate one(certificate);
    if (one.Fingerprint() == fingerprint) return one.ToPem();
  }
  return absl::UnauthenticatedError(
      absl::StrCat("the coordinator at ", address,
                   " is not of the cluster that the token is for; check the address"));
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
  renewed.authorities = response.certificate().authorities();
  return renewed;
}

absl::StatusOr<bool> RenewalDue(const security::Credential& credential, absl::Time now) {
  DP_ASSIGN_OR_RETURN(const security::Certificate certificate,
                      security::Certificate::FromPem(credential.chain));
  const absl::Duration life = certificate.not_after() - certificate.not_before();
  return certificate.not_after() - now < life / 2;
}

}  // namespace dp::client
