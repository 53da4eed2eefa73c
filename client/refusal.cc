#include "client/refusal.h"

#include <arpa/inet.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/host_port.h"
#include "base/security/certificate.h"
#include "base/security/credential.h"
#include "base/security/openssl.h"
#include "base/status.h"
#include "client/certificate_validity.h"
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

// How the check of the coordinator's certificate went.
struct Verdict {
  int error = X509_V_OK;
  std::optional<Certificate> at_fault;  // the one in the chain to which the error belongs
  std::optional<Certificate> shown;     // the coordinator's own
};

std::optional<Certificate> Shared(X509* certificate) {
  if (certificate == nullptr) return std::nullopt;
  X509_up_ref(certificate);
  return Certificate(certificate);
}

// For SSL_CTX_set_cert_verify_callback: OpenSSL's check, whose details it would drop.
int CheckChain(X509_STORE_CTX* chain, void* verdict) {
  const int good = X509_verify_cert(chain);
  *static_cast<Verdict*>(verdict) = {X509_STORE_CTX_get_error(chain),
                                     Shared(X509_STORE_CTX_get_current_cert(chain)),
                                     Shared(X509_STORE_CTX_get0_cert(chain))};
  return good;
}

// Precondition: the check failed.
absl::Status WhyNotTrusted(const Verdict& verdict, const std::string& address,
                           const std::string& dir) {
  const bool of_authority = verdict.at_fault && verdict.shown &&
                            verdict.at_fault->Fingerprint() != verdict.shown->Fingerprint();
  const std::string certificate =
      absl::StrCat("the certificate of the ", of_authority ? "authority of the " : "",
                   "coordinator at ", address);
  const bool about_time = verdict.error == X509_V_ERR_CERT_HAS_EXPIRED ||
                          verdict.error == X509_V_ERR_CERT_NOT_YET_VALID;
  if (about_time && verdict.at_fault) {
    DP_RETURN_IF_ERROR(CheckValidNow(*verdict.at_fault, certificate));
  }
  if (verdict.error == X509_V_ERR_INVALID_PURPOSE) {
    return absl::UnauthenticatedError(
        absl::StrCat(certificate,
                     " is not one of a server; check the address, or make a certificate "
                     "with the extended key usage serverAuth"));
  }
  const bool of_cluster = verdict.shown && verdict.shown->identity().ok();
  return absl::UnauthenticatedError(absl::StrCat(
      "the certificate of the coordinator at ", address, " is of another authority than that in ",
      dir, "/", security::kAuthoritiesFile,
      of_cluster ? "; if the cluster is a new one, log in again with a token that an "
                   "administrator makes by 'dpctl grant'"
                 : "; check the address, or put the authority that signed it into that file"));
}

// The names and addresses in the certificate, of which a few are enough.
std::string HostsIn(const Certificate& certificate) {
  constexpr size_t kHostsShownMax = 8;
  const security::NamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> hosts;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_DNS && name->type != GEN_IPADD) continue;
    const ASN1_STRING* const text = name->type == GEN_DNS ? name->d.dNSName : name->d.iPAddress;
    const unsigned char* const bytes = ASN1_STRING_get0_data(text);
    const auto size = static_cast<size_t>(ASN1_STRING_length(text));
    char address[INET6_ADDRSTRLEN] = "";
    if (name->type == GEN_DNS) hosts.emplace_back(reinterpret_cast<const char*>(bytes), size);
    if (name->type == GEN_DNS || (size != 4 && size != 16)) continue;
    inet_ntop(size == 4 ? AF_INET : AF_INET6, bytes, address, sizeof(address));
    hosts.emplace_back(address);
  }
  if (hosts.empty()) return "";
  const bool more = hosts.size() > kHostsShownMax;
  if (more) hosts.resize(kHostsShownMax);
  return absl::StrCat("; it is for ", absl::StrJoin(hosts, ", "), more ? ", ..." : "");
}

// Whether the channel's verifier (credentials.cc) accepts the certificate of this host.
bool IsForHost(const Certificate& shown, const std::string& host) {
  const auto identity = shown.identity();
  if (identity.ok() && identity->role == security::Role::kCoordinator) return true;
  return X509_check_ip_asc(shown.get(), host.c_str(), 0) == 1 ||
         X509_check_host(shown.get(), host.c_str(), host.size(), 0, nullptr) == 1;
}

absl::Status CheckHost(const Verdict& verdict, const std::string& address) {
  const auto parts = ParseHostPort(address);
  if (!parts.ok() || !verdict.shown || IsForHost(*verdict.shown, parts->host)) {
    return absl::OkStatus();
  }
  return absl::UnauthenticatedError(
      absl::StrCat("the certificate of the coordinator at ", address, " is not for ", parts->host,
                   HostsIn(*verdict.shown), "; call the coordinator at a name of its certificate, ",
                   "or let the certificate name ", parts->host,
                   " (dp-coordinator --tls-cert, or --tls-name for its own)"));
}

// A certificate that is made right after a revocation holds from the next second on.
constexpr absl::Duration kHoldsSoon = absl::Seconds(2);

// Why the coordinator closed the connection of this caller. OK: it will be let in soon.
absl::Status NotAccepted(const Credential& credential, const std::string& address,
                         const std::string& dir) {
  const std::string not_accepted =
      absl::StrCat("the coordinator at ", address, " does not accept the certificate ",
                   HolderOf(credential), dir, ": ");
  const auto own = Certificate::FromPem(credential.chain);
  const absl::Duration until_it_holds =
      own.ok() ? own->not_before() - absl::Now() : absl::ZeroDuration();
  if (until_it_holds > absl::ZeroDuration() && until_it_holds <= kHoldsSoon) {
    return absl::OkStatus();
  }
  if (until_it_holds > absl::ZeroDuration()) {
    return absl::UnauthenticatedError(
        absl::StrCat(not_accepted, "it is not valid before ", UtcText(own->not_before()), ", and ",
                     ClockText(), "; set the clock that is wrong, here or where it was made"));
  }
  const std::string until = own.ok()
                                ? absl::StrCat(" (it is valid until ", UtcText(own->not_after()),
                                               ", and ", ClockText(), ")")
                                : "";
  return absl::UnauthenticatedError(absl::StrCat(
      not_accepted, "it is on a revocation list, is not valid by the coordinator's clock", until,
      ", or is of an authority that the coordinator does not trust; log in again with a token that "
      "an administrator makes by 'dpctl grant', or renew the certificate where it was made"));
}

absl::Status WhyRefusedOverTls(const std::string& address, const std::string& dir,
                               absl::Time deadline) {
  const auto credential = security::ReadCredential(dir);
  const SslContextPtr context = Tls13Context();
  if (!credential.ok() || !Show(*credential, context.get()).ok()) return absl::OkStatus();
  Verdict verdict;
  SSL_CTX_set_cert_verify_callback(context.get(), CheckChain, &verdict);
  const auto socket = ConnectTo(address, deadline);
  if (!socket.ok()) return absl::OkStatus();
  const SslPtr ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), socket->get());
  if (!Handshake(ssl.get(), socket->get(), address, deadline).ok()) {
    if (verdict.error != X509_V_OK) return WhyNotTrusted(verdict, address, dir);
    if (AnswerInPlainText(address, deadline) != Answer::kData) return absl::OkStatus();
    // No word of --insecure: whoever has a credential would give up the proof of who answers.
    return absl::FailedPreconditionError(
        absl::StrCat("what listens at ", address,
                     " does not use TLS, so it is not the coordinator of the "
                     "credential in ",
                     dir, "; check the address, and ask the administrator of the cluster"));
  }
  DP_RETURN_IF_ERROR(CheckHost(verdict, address));
  if (credential->chain.empty()) return absl::OkStatus();
  if (AnswerAfterHandshake(ssl.get(), socket->get(), deadline) != Answer::kClosed) {
    return absl::OkStatus();
  }
  return NotAccepted(*credential, address, dir);
}

}  // namespace

absl::Status WhyRefused(const std::string& address, const CredentialFlags& flags,
                        absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  if (flags.insecure) return WhyRefusedInPlainText(address, deadline);
  const auto dir = FindCredentialDir(address, flags.dir);
  if (!dir.ok()) return absl::OkStatus();
  const absl::Status first = WhyRefusedOverTls(address, *dir, deadline);
  // A coordinator that is just ending closes connections, too. It is not there a second time.
  return first.ok() ? first : WhyRefusedOverTls(address, *dir, deadline);
}

}  // namespace dp::client
