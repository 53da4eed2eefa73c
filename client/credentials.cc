#include "client/credentials.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/security/certificate.h"
#include "base/security/credential.h"
#include "base/security/identity.h"
#include "base/security/local_credential.h"
#include "base/status.h"
#include "client/absence.h"
#include "client/certificate_copies.h"
#include "client/tls_handshake.h"

namespace dp::client {
namespace {

namespace tls = grpc::experimental;

// Loopback answers at once.
constexpr absl::Duration kLookForListener = absl::Seconds(1);

// A renewed certificate counts from the next connection after this time.
constexpr unsigned kReadAgainSeconds = 10;

// Accepts a coordinator by its identity, wherever it runs, and else by its host.
class CoordinatorVerifier final : public tls::ExternalCertificateVerifier {
 public:
  bool Verify(tls::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* status) override {
    for (const grpc::string_ref& uri : request->uri_names()) {
      const auto identity = security::ParseUri({uri.data(), uri.size()});
      if (identity.ok() && identity->role == security::Role::kCoordinator) return true;
    }
    return by_host_.Verify(
        request, [](const grpc::Status&) {}, status);
  }
  void Cancel(tls::TlsCustomVerificationCheckRequest*) override {}

 private:
  tls::HostNameCertificateVerifier by_host_;
};

// `copies`: of the certificate; null if there is none.
std::shared_ptr<tls::CertificateProviderInterface> WatchDir(const std::string& dir,
                                                            const CertificateCopies* copies) {
  using Watcher = tls::FileWatcherCertificateProvider;
  const std::string authorities = absl::StrCat(dir, "/", security::kAuthoritiesFile);
  if (copies == nullptr) return std::make_shared<Watcher>(authorities, kReadAgainSeconds);
  return std::make_shared<Watcher>(copies->key_file(), copies->chain_file(), authorities,
                                   kReadAgainSeconds);
}

std::shared_ptr<tls::CertificateProviderInterface> Fixed(const security::Credential& credential) {
  using Static = tls::StaticDataCertificateProvider;
  if (credential.chain.empty()) return std::make_shared<Static>(credential.authorities);
  return std::make_shared<Static>(credential.authorities, std::vector<tls::IdentityKeyCertPair>{
                                                              {credential.key, credential.chain}});
}

std::shared_ptr<grpc::ChannelCredentials> TlsFrom(
    std::shared_ptr<tls::CertificateProviderInterface> provider, bool with_certificate) {
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::move(provider));
  options.watch_root_certs();
  if (with_certificate) options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(tls::ExternalCertificateVerifier::Create<CoordinatorVerifier>());
  options.set_check_call_host(false);  // CoordinatorVerifier does
  return tls::TlsCredentials(options);
}

// Whether an authority of the coordinator's makes such certificates. Others are made elsewhere.
bool IsOfCluster(const security::Certificate& certificate, const std::string& authorities) {
  const auto trusted = security::Certificate::AllFromPem(authorities);
  const auto has_signed = [&](const auto& authority) { return certificate.IsSignedBy(authority); };
  return certificate.identity().ok() && trusted.ok() &&
         std::any_of(trusted->begin(), trusted->end(), has_signed);
}

// A handshake with an expired certificate fails without a reason.
absl::Status CheckLife(const security::Credential& credential, const std::string& dir) {
  if (credential.chain.empty()) return absl::OkStatus();
  DP_ASSIGN_OR_RETURN(const auto certificate, security::Certificate::FromPem(credential.chain));
  if (absl::Now() < certificate.not_after()) return absl::OkStatus();
  return absl::UnauthenticatedError(absl::StrCat(
      "the certificate in ", dir, " expired at ", absl::FormatTime(certificate.not_after()),
      IsOfCluster(certificate, credential.authorities)
          ? "; log in again, with a token that an administrator makes by 'dpctl grant'"
          : "; the coordinator does not renew it, so renew it where it was made"));
}

bool IsOnThisHost(const std::string& address) {
  return absl::StartsWith(address, "127.") || absl::StartsWith(address, "localhost:") ||
         absl::StartsWith(address, "[::1]:");
}

bool NoneIsHere(const absl::StatusOr<std::string>& dir) {
  return AbsenceIn(dir.status()) == Absence::kNoneOnThisHost;
}

// Distinguishes a coordinator of another user from none.
absl::StatusOr<std::string> DirFor(const std::string& address, const std::string& given) {
  auto dir = FindCredentialDir(address, given);
  if (!NoneIsHere(dir) || !ConnectTo(address, absl::Now() + kLookForListener).ok()) return dir;
  dir = FindCredentialDir(address, given);  // a coordinator that has just started leaves one
  if (!NoneIsHere(dir)) return dir;
  return absl::UnauthenticatedError(absl::StrCat(
      "you are not logged in to the coordinator at ", address,
      ", and it is none of yours under this address; 'dpctl grant user NAME' of an administrator "
      "prints the line to log in with; or name the directory of a credential with --credentials or "
      "DP_CREDENTIALS"));
}

}  // namespace

Credentials::Credentials(std::shared_ptr<grpc::ChannelCredentials> channel, std::string token)
    : channel_(std::move(channel)), token_(std::move(token)) {}

Credentials Credentials::Insecure() { return {grpc::InsecureChannelCredentials(), ""}; }

absl::StatusOr<Credentials> Credentials::FromDir(const std::string& dir) {
  DP_ASSIGN_OR_RETURN(security::Credential credential, security::ReadCredential(dir));
  DP_RETURN_IF_ERROR(security::CheckCredential(credential, dir));
  std::shared_ptr<CertificateCopies> copies;
  if (!credential.chain.empty()) {
    DP_ASSIGN_OR_RETURN(copies, CertificateCopies::Make(dir, credential));
  }
  Credentials credentials(TlsFrom(WatchDir(dir, copies.get()), copies != nullptr),
                          std::move(credential.token));
  credentials.copies_ = std::move(copies);
  return credentials;
}

Credentials Credentials::Of(const security::Credential& credential) {
  return {TlsFrom(Fixed(credential), !credential.chain.empty()), credential.token};
}

Credentials Credentials::Missing(absl::Status why) {
  Credentials missing(nullptr, "");
  missing.status_ = std::move(why);
  return missing;
}

std::string LoginDir(const std::string& address) {
  const char* const config = std::getenv("XDG_CONFIG_HOME");
  const char* const home = std::getenv("HOME");
  const std::string below = absl::StrCat("/dp/credentials/", address);
  if (config != nullptr && *config == '/') return config + below;
  return home != nullptr && *home == '/' ? absl::StrCat(home, "/.config", below) : "";
}

absl::StatusOr<std::string> FindCredentialDir(const std::string& address,
                                              const std::string& given) {
  if (!given.empty()) return given;
  std::error_code error;
  std::string login = LoginDir(address);
  if (!login.empty() && std::filesystem::exists(login + "/" + security::kChainFile, error)) {
    return login;
  }
  absl::StatusOr<std::string> local = security::FindLocalCredential(address);
  if (!absl::IsNotFound(local.status())) return local;
  std::error_code none;
  if (!login.empty() && std::filesystem::is_directory(login, none)) {
    return absl::UnauthenticatedError(
        absl::StrCat("the login for the coordinator at ", address, " in ", login, " has no file ",
                     security::kChainFile,
                     "; log in again with a token that an administrator makes by 'dpctl grant'"));
  }
  if (IsOnThisHost(address)) {
    return WithAbsence(
        Absence::kNoneOnThisHost,
        absl::UnavailableError(absl::StrCat(
            "no coordinator of yours on this host listens on ", address,
            ", and there is no other credential for the address; start one, or ask an "
            "administrator for a login ('dpctl grant') or a worker's token ('dpctl token')")));
  }
  return absl::UnauthenticatedError(absl::StrCat(
      "there is no credential for the coordinator at ", address,
      "; an administrator makes the line to log in with by 'dpctl grant', and that for a worker by "
      "'dpctl token'; the coordinator printed both at its first start; or name the directory of a "
      "credential with --credentials or DP_CREDENTIALS"));
}

absl::StatusOr<Credentials> FindCredentials(const std::string& address,
                                            const CredentialFlags& flags) {
  if (flags.insecure) return Credentials::Insecure();
  DP_ASSIGN_OR_RETURN(const std::string dir, DirFor(address, flags.dir));
  if (!flags.accept_other_users) DP_RETURN_IF_ERROR(security::CheckCredentialFiles(dir));
  DP_ASSIGN_OR_RETURN(Credentials credentials, Credentials::FromDir(dir));
  DP_ASSIGN_OR_RETURN(const security::Credential files, security::ReadCredential(dir));
  DP_RETURN_IF_ERROR(CheckLife(files, dir));
  return credentials;
}

}  // namespace dp::client
