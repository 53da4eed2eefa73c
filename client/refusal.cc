#include "client/refusal.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/security/certificate.h"
#include "base/security/credential.h"
#include "base/status.h"
#include "client/tls_handshake.h"

namespace dp::client {
namespace {

using security::Certificate;
using security::Credential;

// HTTP/2's connection preface (RFC 9113, 3.4): its magic text and an empty SETTINGS frame. A server
// answers with its own SETTINGS.
constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

enum class Answer { kData, kClosed, kNone };

// How the server answers HTTP/2 in plain text.
Answer AnswerInPlainText(const std::string& address, absl::Time deadline) {
  const auto socket = ConnectTo(address, deadline);
  if (!socket.ok()) return Answer::kNone;
  // A failure shows below.
  (void)send(socket->get(), kPreface, sizeof(kPreface) - 1, MSG_NOSIGNAL);
  if (!AwaitReady(socket->get(), POLLIN, deadline)) return Answer::kNone;
  char first = 0;
  return recv(socket->get(), &first, 1, 0) == 1 ? Answer::kData : Answer::kClosed;
}

// How the server goes on after the handshake. It checks the caller's certificate last: then it
// sends SETTINGS of HTTP/2, or closes the connection.
Answer AnswerAfterHandshake(SSL* ssl, int fd, absl::Time deadline) {
  char first = 0;
  while (true) {
    const int count = SSL_read(ssl, &first, 1);
    if (count == 1) return Answer::kData;
    const bool waits = SSL_get_error(ssl, count) == SSL_ERROR_WANT_READ;
    ERR_clear_error();
    if (!waits) return Answer::kClosed;
    if (!AwaitReady(fd, POLLIN, deadline)) return Answer::kNone;
  }
}

// Shows the certificate only to a coordinator of the credential's authorities.
absl::Status Show(const Credential& credential, SSL_CTX* context) {
  DP_ASSIGN_OR_RETURN(const auto authorities, Certificate::AllFromPem(credential.authorities));
  X509_STORE* const trusted = SSL_CTX_get_cert_store(context);
  for (const Certificate& authority : authorities) X509_STORE_add_cert(trusted, authority.get());
  X509_STORE_set_flags(trusted, X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (credential.chain.empty()) return absl::OkStatus();
  DP_ASSIGN_OR_RETURN(const auto chain, Certificate::AllFromPem(credential.chain));
  DP_ASSIGN_OR_RETURN(const auto key, security::KeyPair::FromPem(credential.key));
  SSL_CTX_use_certificate(context, chain.front().get());
  for (size_t i = 1; i < chain.size(); ++i) SSL_CTX_add1_chain_cert(context, chain[i].get());
  SSL_CTX_use_PrivateKey(context, key.get());
  return absl::OkStatus();
}

// Whether the server makes a TLS handshake with a caller who checks nothing.
bool AnswersWithTls(const std::string& address, absl::Time deadline) {
  const auto socket = ConnectTo(address, deadline);
  if (!socket.ok()) return false;
  const SslContextPtr context = Tls13Context();
  const SslPtr ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), socket->get());
  return Handshake(ssl.get(), socket->get(), address, deadline).ok();
}

absl::Status WhyRefusedInPlainText(const std::string& address, absl::Time deadline) {
  if (AnswerInPlainText(address, deadline) != Answer::kClosed) return absl::OkStatus();
  if (!AnswersWithTls(address, deadline)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the coordinator at ", address,
                   " takes calls over TLS only; leave out --insecure, and unset DP_INSECURE"));
}

std::string HolderOf(const Credential& credential) {
  const auto certificate = Certificate::FromPem(credential.chain);
  const auto identity = certificate.ok() ? certificate->identity() : certificate.status();
  return identity.ok() ? absl::StrCat("of ", security::ToString(*identity), " in ") : "in ";
}

absl::Status WhyRefusedOverTls(const std::string& address, const std::string& dir,
                               absl::Time deadline) {
  const auto credential = security::ReadCredential(dir);
  const SslContextPtr context = Tls13Context();
  if (!credential.ok() || !Show(*credential, context.get()).ok()) return absl::OkStatus();
  const auto socket = ConnectTo(address, deadline);
  if (!socket.ok()) return absl::OkStatus();
  const SslPtr ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), socket->get());
  if (!Handshake(ssl.get(), socket->get(), address, deadline).ok()) {
    if (SSL_get_verify_result(ssl.get()) != X509_V_OK) {
      return absl::UnauthenticatedError(absl::StrCat(
          "the certificate of the coordinator at ", address,
          " is of another authority than that in ", dir, "/", security::kAuthoritiesFile,
          "; if the cluster is a new one, log in again with a token that an "
          "administrator makes by 'dpctl grant'"));
    }
    if (AnswerInPlainText(address, deadline) != Answer::kData) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "the coordinator at ", address,
        " does not use TLS; call it with --insecure, which proves nothing and hides nothing"));
  }
  if (credential->chain.empty()) return absl::OkStatus();
  if (AnswerAfterHandshake(ssl.get(), socket->get(), deadline) != Answer::kClosed) {
    return absl::OkStatus();
  }
  return absl::UnauthenticatedError(absl::StrCat(
      "the coordinator at ", address, " does not accept the certificate ", HolderOf(*credential),
      dir,
      ": it is on a revocation list, has expired, or is of an authority that the coordinator does "
      "not trust; log in again with a token that an administrator makes by 'dpctl grant', or renew "
      "the certificate where it was made"));
}

}  // namespace

absl::Status WhyRefused(const std::string& address, const CredentialFlags& flags,
                        absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  if (flags.insecure) return WhyRefusedInPlainText(address, deadline);
  const auto dir = FindCredentialDir(address, flags.dir);
  return dir.ok() ? WhyRefusedOverTls(address, *dir, deadline) : absl::OkStatus();
}

}  // namespace dp::client
