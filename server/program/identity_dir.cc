#include "server/program/identity_dir.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/program/log.h"
#include "base/replace_file.h"
#include "base/security/certificate.h"
#include "base/security/credential.h"
#include "base/security/safe_path.h"
#include "base/status.h"
#include "server/program/keep_from_others.h"

namespace dp::server {
namespace {

using security::CertificateAuthority;
using security::KeyPair;
using security::Role;

absl::Status Unusable(const std::filesystem::path& path, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(
      "identity file ", path.string(), ": ", why, "; restore it from a backup (docs/security.md)"));
}

absl::StatusOr<std::string> Read(const std::filesystem::path& path) {
  std::error_code error;
  // Opening a FIFO would wait for a writer.
  if (const auto found = std::filesystem::status(path, error);
      std::filesystem::exists(found) && !std::filesystem::is_regular_file(found)) {
    return absl::PermissionDeniedError(absl::StrCat(path.string(), " is no regular file"));
  }
  std::ifstream file(path, std::ios::binary);
  if (file) return std::string(std::istreambuf_iterator<char>(file), {});
  return absl::PermissionDeniedError(
      absl::StrCat(path.string(), " cannot be read: ", std::generic_category().message(errno)));
}

// A file that the flag names.
absl::StatusOr<std::string> ReadGiven(absl::string_view flag, const std::string& path) {
  absl::StatusOr<std::string> text = Read(path);
  if (text.ok()) return text;
  return absl::Status(text.status().code(), absl::StrCat(flag, " ", text.status().message()));
}

absl::Status Write(const std::filesystem::path& path, const std::string& text) {
  if (ReplaceFile(path, text)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(path.string(), " cannot be written: ", std::generic_category().message(errno)));
}

// Copies of what --tls-cert and --tls-key name.
constexpr char kGivenChain[] = "given.crt";
constexpr char kGivenKey[] = "given.key";

std::string HolderOf(const security::Certificate& certificate) {
  const auto identity = certificate.identity();
  return identity.ok() ? security::ToString(*identity)
                       : absl::StrCat("'", absl::CHexEscape(certificate.subject()), "'");
}

// The certificates of the text, and nothing else. gRPC stops in silence at the first part that it
// cannot read, and would reject callers of the authorities behind it.
// Errors: FailedPrecondition the file holds no certificates, a damaged part, or the certificate of
// somebody who is no authority, which makes nobody's certificate valid.
absl::StatusOr<std::vector<security::Certificate>> AuthoritiesIn(const std::string& path,
                                                                 const std::string& pem) {
  const auto wrong = [&path](absl::string_view why) {
    return absl::FailedPreconditionError(
        absl::StrCat("--client-ca ", path, ": ", why,
                     "; the file must hold the certificates of authorities, in PEM"));
  };
  auto authorities = security::Certificate::AllFromPem(pem);
  if (!authorities.ok()) return wrong(authorities.status().message());
  for (const security::Certificate& each : *authorities) {
    if (!each.IsAuthority())
      return wrong(absl::StrCat("the certificate of ", HolderOf(each), " is no authority's"));
  }
  return authorities;
}

struct ChainAndKey {
  std::string chain;
  std::string key;
};

// Errors: FailedPrecondition, PermissionDenied.
absl::StatusOr<ChainAndKey> ReadGivenPair(const IdentityOptions& options, absl::Time now) {
  const auto wrong = [](const std::string& flag, absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat(flag, ": ", why));
  };
  const std::string chain_flag = absl::StrCat("--tls-cert ", options.chain_file);
  const std::string key_flag = absl::StrCat("--tls-key ", options.key_file);
  DP_ASSIGN_OR_RETURN(const std::string chain, ReadGiven("--tls-cert", options.chain_file));
  DP_ASSIGN_OR_RETURN(const std::string key, ReadGiven("--tls-key", options.key_file));
  const auto certificate = security::Certificate::FromPem(chain);
  if (!certificate.ok()) return wrong(chain_flag, certificate.status().message());
  const auto pair = KeyPair::FromPem(key);
  if (!pair.ok() && absl::StrContains(key, "ENCRYPTED"))
    return wrong(key_flag, "the key is encrypted; give one that needs no password");
  if (!pair.ok()) return wrong(key_flag, pair.status().message());
  if (!certificate->Fits(*pair)) return wrong(key_flag, "it is not the key of the certificate");
  if (now < certificate->not_after()) return ChainAndKey{chain, key};
  return wrong(chain_flag, absl::StrCat("the certificate expired at ",
                                        absl::FormatTime(certificate->not_after())));
}

// The key, if it is whole and that of the first certificate of the chain.
std::optional<KeyPair> KeyOf(const std::string& chain, const std::string& key) {
  const auto certificate = security::Certificate::FromPem(chain);
  auto pair = KeyPair::FromPem(key);
  if (!certificate.ok() || !pair.ok() || !certificate->Fits(*pair)) return std::nullopt;
  return pair->IsWhole() ? std::optional(*std::move(pair)) : std::nullopt;
}

// Whether the first certificate of the chain was signed by this authority, and has more than half
// of its life left.
bool IsFresh(const std::string& chain, const CertificateAuthority& authority, absl::Time now) {
  const auto certificate = security::Certificate::FromPem(chain);
  if (!certificate.ok() || !certificate->IsSignedBy(authority.certificate())) return false;
  if (certificate->not_before() > now) return false;  // made while the clock was ahead
  const absl::Duration life = certificate->not_after() - certificate->not_before();
  return certificate->not_after() - now > life / 2;
}

}  // namespace

IdentityDir::IdentityDir(std::filesystem::path path, IdentityOptions options)
    : path_(std::move(path)), options_(std::move(options)) {
  if (options_.crl_dir.empty()) return;
  lists_.emplace(options_.crl_dir, path_ / "server" / "lists", options_.accept_other_users);
}

absl::StatusOr<IdentityDir> IdentityDir::Open(const std::filesystem::path& path,
                                              const IdentityOptions& options, absl::Time now) {
  for (const auto& made : {path, path / "server"}) {
    if (mkdir(made.c_str(), 0700) == 0 || errno == EEXIST) continue;
    return absl::PermissionDeniedError(
        absl::StrCat(made.string(), " cannot be made: ", std::generic_category().message(errno)));
  }
  DP_RETURN_IF_ERROR(KeepFromOthers(path, options.accept_other_users));
  IdentityDir dir(path, options);
  DP_RETURN_IF_ERROR(dir.OpenAuthority(now));
  DP_RETURN_IF_ERROR(dir.Refresh(now));
  return dir;
}

absl::Status IdentityDir::OpenAuthority(absl::Time now) {
  const auto certificate = path_ / "ca.crt", key = path_ / "ca.key", tokens = path_ / "token.key";
  std::error_code error;
  // The certificate is written last, before all that depends on it: alone, the others were left by
  // a start that was cut off.
  if (!std::filesystem::exists(certificate, error)) {
    for (const auto& later : {path_ / "server" / security::kChainFile, path_ / "admin"}) {
      if (std::filesystem::exists(later, error)) return Unusable(certificate, "it is missing");
    }
    const CertificateAuthority made = CertificateAuthority::Make(now);
    DP_RETURN_IF_ERROR(Write(key, made.key().ToPem()));
    DP_RETURN_IF_ERROR(Write(tokens, security::TokenKey::Make().bytes()));
    DP_RETURN_IF_ERROR(Write(certificate, made.certificate().ToPem()));
    made_ = true;
  }
  for (const auto& needed : {key, tokens}) {
    if (!std::filesystem::exists(needed, error) && !error) {
      return Unusable(needed, "it is missing");
    }
  }
  DP_ASSIGN_OR_RETURN(const std::string certificate_pem, Read(certificate));
  const absl::Status readable = security::Certificate::FromPem(certificate_pem).status();
  if (!readable.ok()) return Unusable(certificate, readable.message());
  DP_ASSIGN_OR_RETURN(const std::string key_pem, Read(key));
  auto authority = CertificateAuthority::FromPem(certificate_pem, key_pem);
  if (!authority.ok()) return Unusable(key, authority.status().message());
  DP_ASSIGN_OR_RETURN(const std::string token_bytes, Read(tokens));
  auto token_key = security::TokenKey::From(token_bytes);
  if (!token_key.ok()) return Unusable(tokens, token_key.status().message());
  DP_ASSIGN_OR_RETURN(security::SealingKey secrets, OpenSealingKey());
  authority_ =
      std::make_unique<Authority>(*std::move(authority), *std::move(token_key), std::move(secrets));
  return absl::OkStatus();
}

// Earlier releases had no such key. Without the key that sealed them, the secrets of jobs on record
// are lost. The log says it at once, and the jobs say it when they are placed.
absl::StatusOr<security::SealingKey> IdentityDir::OpenSealingKey() const {
  const auto path = path_ / "secret.key";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    security::SealingKey made = security::SealingKey::Make();
    DP_RETURN_IF_ERROR(Write(path, made.bytes()));
    if (!made_) {
      Log(Severity::kWarning, "secret_key_made",
          {{"path", path.string()},
           {"reason", "it was missing: jobs with secrets from before fail"},
           {"remedy", "restore it from a backup, or submit these jobs again"}});
    }
    return made;
  }
  DP_ASSIGN_OR_RETURN(const std::string bytes, Read(path));
  auto key = security::SealingKey::From(bytes);
  if (!key.ok()) return Unusable(path, key.status().message());
  return key;
}

absl::Status IdentityDir::Refresh(absl::Time now) {
  // A problem with one part is no reason to let another expire.
  absl::Status first = RefreshServer(now);
  first.Update(RefreshClients(now));
  first.Update(RefreshAdmin(now));
  return first;
}

// With a pair that does not fit, gRPC would fail every handshake without a word. An empty file, as
// `cp` leaves for a moment, would end the process. gRPC therefore reads copies.
absl::Status IdentityDir::CopyGiven(absl::Time now) {
  DP_RETURN_IF_ERROR(CheckOtherUsers(absl::StrCat("--tls-cert ", options_.chain_file),
                                     security::CheckSafePath(options_.chain_file)));
  DP_RETURN_IF_ERROR(CheckOtherUsers(absl::StrCat("--tls-key ", options_.key_file),
                                     security::CheckPrivateFile(options_.key_file)));
  DP_ASSIGN_OR_RETURN(const ChainAndKey given, ReadGivenPair(options_, now));
  for (const auto& [to, text] : {std::pair{path_ / "server" / kGivenKey, given.key},
                                 {path_ / "server" / kGivenChain, given.chain}}) {
    if (Read(to).value_or("") != text) DP_RETURN_IF_ERROR(Write(to, text));
  }
  return absl::OkStatus();
}

// The key stays: gRPC may read the two files at different times. A lost or damaged key is made
// again, because no handshake would succeed with it.
absl::Status IdentityDir::RefreshServer(absl::Time now) {
  if (!options_.chain_file.empty()) return CopyGiven(now);
  const auto chain = path_ / "server" / security::kChainFile;
  const auto key = path_ / "server" / security::kKeyFile;
  const std::string hosts = absl::StrCat(absl::StrJoin(options_.hosts, "\n"), "\n");
  const auto hosts_file = path_ / "server" / "hosts";
  const std::string old = Read(chain).value_or("");
  auto pair = KeyOf(old, Read(key).value_or(""));
  if (pair && IsFresh(old, authority_->certificates(), now) &&
      Read(hosts_file).value_or("") == hosts) {
    return absl::OkStatus();
  }
  if (!pair) {
    pair = KeyPair::Make();
    DP_RETURN_IF_ERROR(Write(key, pair->ToPem()));
  }
  DP_ASSIGN_OR_RETURN(const IssuedCertificate issued,
                      authority_->IssueToCoordinator(pair->SigningRequest(), options_.hosts, now));
  DP_RETURN_IF_ERROR(Write(chain, issued.chain));
  return Write(hosts_file, hosts);
}

absl::Status IdentityDir::RefreshAdmin(absl::Time now) {
  const auto old = security::ReadCredential(admin_dir());
  const bool fresh = old.ok() && KeyOf(old->chain, old->key) &&
                     IsFresh(old->chain, authority_->certificates(), now);
  return fresh ? absl::OkStatus() : RenewAdmin(now);
}

absl::Status IdentityDir::RenewAdmin(absl::Time now) {
  const auto old = security::ReadCredential(admin_dir());
  auto pair = old.ok() ? KeyOf(old->chain, old->key) : std::nullopt;
  if (!pair) pair = KeyPair::Make();
  DP_ASSIGN_OR_RETURN(const IssuedCertificate issued,
                      authority_->Issue(pair->SigningRequest(), {Role::kAdmin, kLocalAdmin}, now));
  return security::WriteCredential(
      admin_dir(),
      {.authorities = issued.authorities, .chain = issued.chain, .key = pair->ToPem()});
}

// A problem with one file is no reason to leave the others as they were.
absl::Status IdentityDir::RefreshClients(absl::Time now) {
  const auto file = path_ / "server" / security::kAuthoritiesFile;
  const security::Certificate& own = authority_->certificates().certificate();
  absl::Status first = RefreshOtherAuthorities();
  if (lists_) {
    std::vector<security::Certificate> authorities = other_authorities_;
    authorities.push_back(own);
    absl::Status safe = CheckOtherUsers(absl::StrCat("--crl-dir ", options_.crl_dir),
                                        security::CheckSafePath(options_.crl_dir));
    first.Update(safe.ok() ? lists_->Refresh(authorities, now) : safe);
    WarnOfLists(now);
  }
  std::string clients = own.ToPem();
  for (const security::Certificate& each : other_authorities_) {
    if (lists_ && lists_->revocations()->Revoke(each)) {
      first.Update(absl::FailedPreconditionError(
          absl::StrCat("--client-ca ", options_.clients_file, ": a list in --crl-dir revokes ",
                       HolderOf(each), "; remove that authority from the file")));
      continue;
    }
    absl::StrAppend(&clients, each.ToPem());
  }
  // gRPC reads the lists again when this file changes. Between certificates it may hold any text.
  if (lists_) absl::StrAppend(&clients, lists_->text());
  if (Read(file).value_or("") != clients) first.Update(Write(file, clients));
  return first;
}

absl::Status IdentityDir::RefreshOtherAuthorities() {
  if (options_.clients_file.empty()) return absl::OkStatus();
  DP_RETURN_IF_ERROR(CheckOtherUsers(absl::StrCat("--client-ca ", options_.clients_file),
                                     security::CheckSafePath(options_.clients_file)));
  DP_ASSIGN_OR_RETURN(const std::string text, ReadGiven("--client-ca", options_.clients_file));
  DP_ASSIGN_OR_RETURN(other_authorities_, AuthoritiesIn(options_.clients_file, text));
  return absl::OkStatus();
}

// Whoever can change these files decides who is an administrator, or poses as the coordinator.
absl::Status IdentityDir::CheckOtherUsers(const std::string& flag, const absl::Status& safe) {
  if (safe.ok() || absl::IsNotFound(safe)) return absl::OkStatus();  // its reader names it
  const std::string reason(safe.message());
  if (!options_.accept_other_users) {
    return absl::PermissionDeniedError(
        absl::StrCat(flag, " is not used: ", reason, "; others could take over the cluster by it"));
  }
  if (warned_.insert(flag + reason).second) {
    Log(Severity::kWarning, "given_file_open_to_others", {{"flag", flag}, {"reason", reason}});
  }
  return absl::OkStatus();
}

// OpenSSL rejects all certificates of an authority whose list has expired, without a word.
void IdentityDir::WarnOfLists(absl::Time now) {
  for (const auto& [list, expired] : lists_watch_.Due(lists_->in_force(), now)) {
    Log(Severity::kWarning, expired ? "revocation_list_expired" : "revocation_list_expires",
        {{"file", list.file},
         {expired ? "expired_at" : "expires_at",
          absl::FormatTime(absl::RFC3339_sec, list.ends, absl::UTCTimeZone())},
         {"reason", expired ? "no certificate of its authority counts until there is a new list"
                            : "from then on no certificate of its authority counts"},
         {"remedy", "put the authority's new list into --crl-dir"}});
  }
}

bool IdentityDir::ShowsAuthority() const {
  if (options_.chain_file.empty()) return true;
  const auto shown = security::Certificate::AllFromPem(Read(options_.chain_file).value_or(""));
  if (!shown.ok()) return false;
  const security::Certificate& own = authority_->certificates().certificate();
  const auto is_own = [&own](const auto& each) { return each.Fingerprint() == own.Fingerprint(); };
  return shown->front().IsSignedBy(own) && std::any_of(shown->begin(), shown->end(), is_own);
}

TlsOptions IdentityDir::tls() const {
  const auto server = path_ / "server";
  const bool own = options_.chain_file.empty();
  return {.chain_file = server / (own ? security::kChainFile : kGivenChain),
          .key_file = server / (own ? security::kKeyFile : kGivenKey),
          .clients_file = server / security::kAuthoritiesFile,
          .crl_dir = lists_ ? lists_->copies().string() : "",
          .revocations = lists_ ? lists_->revocations() : nullptr,
          .authority = authority_.get(),
          .own_certificate = ShowsAuthority()};
}

std::vector<std::string> HostsOfThisMachine() {
  std::set<std::string> hosts = {"localhost", "127.0.0.1", "::1"};
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) == 0 && *name != '\0') hosts.insert(name);
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return {hosts.begin(), hosts.end()};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(found, freeifaddrs);
  for (const ifaddrs* one = found; one != nullptr; one = one->ifa_next) {
    char text[INET6_ADDRSTRLEN] = "";
    const sockaddr* const address = one->ifa_addr;
    if (address == nullptr) continue;
    if (address->sa_family == AF_INET) {
      inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text,
                sizeof(text));
    } else if (address->sa_family == AF_INET6) {
      inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text,
                sizeof(text));
    }
    if (*text != '\0') hosts.insert(text);
  }
  return {hosts.begin(), hosts.end()};
}

}  // namespace dp::server
