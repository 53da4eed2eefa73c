#include "worker/agent/own_credential.h"

#include <pthread.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/program/log.h"
#include "base/program/repeated_reason.h"
#include "base/random.h"
#include "base/security/certificate.h"
#include "base/security/credential.h"
#include "base/security/local_credential.h"
#include "base/security/token.h"
#include "base/status.h"
#include "client/retry_loop.h"
#include "worker/agent/coordinator_trouble.h"

namespace dp::worker {
namespace {

using security::Credential;
using security::Role;

// Half of a certificate's life is days, so a look each hour is soon enough.
constexpr absl::Duration kLookEvery = absl::Hours(1);
constexpr absl::Duration kLookForCredentialEvery = absl::Milliseconds(200);
constexpr absl::Duration kAttempt = absl::Seconds(10);

std::string OwnDir(const std::string& state_dir) { return state_dir + "/credential"; }

// Whoever can write the files, or replace them, decides which coordinator the daemon obeys.
// Errors: those of CheckCredentialFiles, unless other users are accepted.
absl::Status CheckOnlyOurs(const std::string& dir, const IdentityFlags& flags) {
  const absl::Status safe = security::CheckCredentialFiles(dir);
  if (safe.ok() || !flags.credentials.accept_other_users) return safe;
  Log(Severity::kWarning, "credential_open_to_others",
      {{"dir", dir}, {"reason", std::string(safe.message())}});
  return absl::OkStatus();
}

// Errors: Unauthenticated it has expired; InvalidArgument, NotFound it holds no identity.
absl::StatusOr<security::Identity> IdentityIn(const Credential& credential) {
  DP_ASSIGN_OR_RETURN(const security::Certificate certificate,
                      security::Certificate::FromPem(credential.chain));
  if (certificate.not_after() <= Clock::System().Now()) {
    return absl::UnauthenticatedError(
        absl::StrCat("the certificate expired at ",
                     absl::FormatTime(certificate.not_after(), absl::UTCTimeZone())));
  }
  return certificate.identity();
}

// Whether the coordinator on this host has another authority by now: somebody has set it up anew.
bool WasSetUpAnew(const std::string& coordinator, const Credential& own) {
  const auto dir = security::FindLocalCredential(coordinator);
  const auto local = dir.ok() ? security::ReadCredential(*dir) : dir.status();
  return local.ok() && local->authorities != own.authorities;
}

// A person's token would be used up, and its certificate lets nobody be a worker.
// Errors: InvalidArgument the join token is a person's, or cannot be read.
absl::Status CheckToken(const std::string& token) {
  if (token.empty()) return absl::OkStatus();
  DP_ASSIGN_OR_RETURN(const security::JoinClaims claims, client::ClaimsOf(token));
  if (claims.identity.role == Role::kWorker) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the token is for ", security::ToString(claims.identity),
      ", who logs in with it: 'dpctl login'; ask an administrator for one that 'dpctl token' "
      "prints"));
}

// Whether the daemon still belongs to the cluster of the certificate. Precondition: CheckToken.
// Errors: FailedPrecondition.
absl::Status CheckCluster(const Credential& own, const std::string& coordinator,
                          const IdentityFlags& flags) {
  if (flags.join.empty()) {
    if (!flags.credentials.dir.empty() || !WasSetUpAnew(coordinator, own)) return absl::OkStatus();
    return absl::FailedPreconditionError("the coordinator on this host was set up anew");
  }
  // A token of another cluster means that the daemon is to join that one.
  DP_ASSIGN_OR_RETURN(const security::JoinClaims claims, client::ClaimsOf(flags.join));
  const auto authority = security::Certificate::FromPem(own.authorities);
  if (authority.ok() && authority->Fingerprint() == claims.fingerprint) return absl::OkStatus();
  return absl::FailedPreconditionError("the join token is of another cluster");
}

// Whether the certificate in the state directory still does for this daemon. Errors say why not.
absl::Status CheckOwn(const std::string& dir, const Credential& own, const std::string& coordinator,
                      const IdentityFlags& flags) {
  DP_RETURN_IF_ERROR(security::CheckCredential(own, dir));
  DP_ASSIGN_OR_RETURN(const security::Identity identity, IdentityIn(own));
  if (identity.role != Role::kWorker) {
    return absl::FailedPreconditionError(
        absl::StrCat("it is that of ", security::ToString(identity), ", and not of a worker"));
  }
  if (!flags.applicant.worker.empty() && identity.name != flags.applicant.worker) {
    return absl::FailedPreconditionError(
        absl::StrCat("it is that of worker ", identity.name, ", and --name is another"));
  }
  return CheckCluster(own, coordinator, flags);
}

// The name in a certificate of this cluster, even if it has expired. Empty: there is none, or the
// join token names another. `authorities`: those of the credential with which to join; empty: by a
// token.
std::string FormerName(const Credential& own, const std::string& coordinator,
                       const IdentityFlags& flags, const std::string& authorities) {
  const auto certificate = security::Certificate::FromPem(own.chain);
  const auto identity = certificate.ok() ? certificate->identity() : certificate.status();
  if (!identity.ok() || identity->role != Role::kWorker) return "";
  if (!CheckCluster(own, coordinator, flags).ok()) return "";
  if (!authorities.empty() && authorities != own.authorities) return "";
  const auto claims = security::ReadJoinToken(flags.join);
  return claims.ok() && !claims->identity.name.empty() ? "" : identity->name;
}

// Waits for the coordinator as long as it takes.
template <typename Attempt>
absl::StatusOr<Credential> Patiently(client::Pause& pause, const std::function<void()>& alive,
                                     Attempt attempt) {
  CoordinatorTrouble waits;
  RepeatedReason taken("name_taken");
  const auto logged = [&](absl::Duration in) -> absl::StatusOr<Credential> {
    alive();
    auto result = attempt(std::min(in, kAttempt));
    if (result.ok()) return result;
    // The daemon that had the name may be dead, and its lease then ends.
    const bool is_taken = absl::IsAlreadyExists(result.status());
    if (is_taken) taken.Failed(result.status());
    if (absl::IsUnavailable(result.status()) || absl::IsDeadlineExceeded(result.status())) {
      waits.Failed(result.status());  // a rejection ends the daemon, which then says why
    }
    return is_taken ? absl::UnavailableError(result.status().message()) : result;
  };
  return client::RetryLoop(
      client::RetryPolicy({.deadline = absl::InfiniteDuration()}, EntropySeed()), Clock::Steady(),
      pause, logged);
}

// A coordinator on this host that is yet to start will leave its credential.
absl::StatusOr<std::string> AwaitCredentialDir(const std::string& coordinator,
                                               const std::string& given, client::Pause& pause,
                                               const std::function<void()>& alive) {
  RepeatedReason waits("coordinator_unreachable");
  while (true) {
    auto dir = client::FindCredentialDir(coordinator, given);
    if (!absl::IsUnavailable(dir.status())) return dir;
    waits.Failed(dir.status());
    alive();
    if (!pause.For(kLookForCredentialEvery)) return absl::CancelledError("shut down");
  }
}

// The holder of the certificate in the directory: "that of user ann".
std::string HolderIn(const std::string& dir) {
  const auto credential = security::ReadCredential(dir);
  const auto identity = credential.ok() ? IdentityIn(*credential) : credential.status();
  return identity.ok() ? absl::StrCat("that of ", security::ToString(*identity))
                       : "that of somebody";
}

absl::StatusOr<Credential> Enrol(const std::string& coordinator, const IdentityFlags& flags,
                                 const std::string& administrator, client::Pause& pause,
                                 const std::function<void()>& alive) {
  if (!flags.join.empty()) {
    return Patiently(pause, alive, [&](absl::Duration in) {
      return client::EnrolByToken(coordinator, flags.join, flags.applicant, in);
    });
  }
  DP_ASSIGN_OR_RETURN(const client::Credentials credentials,
                      client::Credentials::FromDir(administrator));
  client::Connection connection(coordinator, credentials);
  auto enrolled = Patiently(pause, alive, [&](absl::Duration in) {
    return client::EnrolByAdministrator(connection, flags.applicant, in);
  });
  if (!absl::IsPermissionDenied(enrolled.status())) return enrolled;
  // The coordinator's remedy, another role for the person, is none for a daemon.
  return absl::PermissionDeniedError(
      absl::StrCat("the certificate in ", administrator, " is ", HolderIn(administrator),
                   ", who may not let workers join; ask an administrator for a worker's token, "
                   "which 'dpctl token worker' prints, and give it with --join"));
}

}  // namespace

absl::StatusOr<std::string> OpenCredential(const std::string& coordinator,
                                           const std::string& state_dir, const IdentityFlags& flags,
                                           client::Pause& pause,
                                           const std::function<void()>& alive) {
  DP_RETURN_IF_ERROR(CheckToken(flags.join));
  if (flags.credentials.insecure) return std::string();
  const std::string own = OwnDir(state_dir);
  std::error_code error;
  absl::StatusOr<Credential> left = absl::NotFoundError("there is none");
  if (std::filesystem::exists(own, error)) {
    DP_RETURN_IF_ERROR(CheckOnlyOurs(own, flags));
    left = security::ReadCredential(own);
    const absl::Status usable =
        left.ok() ? CheckOwn(own, *left, coordinator, flags) : left.status();
    if (usable.ok()) return own;
    Log(Severity::kWarning, "credential_not_usable",
        {{"dir", own}, {"reason", std::string(usable.message())}});
  }
  std::string given, authorities;
  if (flags.join.empty()) {
    DP_ASSIGN_OR_RETURN(given,
                        AwaitCredentialDir(coordinator, flags.credentials.dir, pause, alive));
    DP_RETURN_IF_ERROR(CheckOnlyOurs(given, flags));
    DP_ASSIGN_OR_RETURN(const Credential credential, security::ReadCredential(given));
    const auto identity = IdentityIn(credential);
    if (identity.ok() && identity->role == Role::kWorker) return given;
    authorities = credential.authorities;
  }
  // A token may count once.
  const bool has_state = std::filesystem::exists(state_dir, error);
  DP_RETURN_IF_ERROR(security::PrepareCredentialDir(own, flags.credentials.accept_other_users));
  IdentityFlags joining = flags;
  if (left.ok() && flags.applicant.worker.empty()) {
    joining.applicant.worker = FormerName(*left, coordinator, flags, authorities);
  }
  absl::StatusOr<Credential> enrolled = Enrol(coordinator, joining, given, pause, alive);
  const bool under_former_name = joining.applicant.worker != flags.applicant.worker;
  if (under_former_name && absl::IsUnauthenticated(enrolled.status())) {
    // The name may have been revoked since the token was made. Another one does.
    Log(Severity::kWarning, "former_name_not_usable",
        {{"worker", joining.applicant.worker},
         {"reason", std::string(enrolled.status().message())}});
    enrolled = Enrol(coordinator, flags, given, pause, alive);
  }
  if (!enrolled.ok()) {  // leaves nothing behind: these remove empty directories only
    std::filesystem::remove(own, error);
    if (!has_state) std::filesystem::remove(state_dir, error);
    return enrolled.status();
  }
  DP_RETURN_IF_ERROR(security::WriteCredential(own, *enrolled));
  const auto name = WorkerNameIn(own);
  Log(Severity::kInfo, "joined",
      {{"worker", name.value_or("?")}, {"by", given.empty() ? "the join token" : given}});
  return own;
}

absl::StatusOr<std::string> WorkerNameIn(const std::string& credential_dir) {
  DP_ASSIGN_OR_RETURN(const Credential credential, security::ReadCredential(credential_dir));
  DP_ASSIGN_OR_RETURN(const security::Identity identity, IdentityIn(credential));
  if (identity.role == Role::kWorker) return identity.name;
  return absl::FailedPreconditionError(absl::StrCat("the certificate in ", credential_dir,
                                                    " is that of ", security::ToString(identity),
                                                    ", and not of a worker"));
}

std::string ReadableAdmin(const std::string& coordinator, const std::string& given) {
  const std::string local = security::FindLocalCredential(coordinator).value_or("");
  for (const std::string& dir : {given, client::LoginDir(coordinator), local}) {
    const auto credential = security::ReadCredential(dir);
    const auto identity = credential.ok() ? IdentityIn(*credential) : credential.status();
    if (!dir.empty() && identity.ok() && identity->role == Role::kAdmin) return dir;
  }
  return "";
}

CertificateRenewal::CertificateRenewal(client::Connection& connection, std::string credential_dir,
                                       const std::string& state_dir)
    : connection_(connection), credential_dir_(std::move(credential_dir)) {
  if (credential_dir_ != OwnDir(state_dir)) return;
  thread_ = std::jthread([this] {
    pthread_setname_np(pthread_self(), "dp-renewal");
    Run();
  });
}

CertificateRenewal::~CertificateRenewal() { pause_.Stop(); }

void CertificateRenewal::Run() {
  do {
    RenewIfDue();
  } while (pause_.For(kLookEvery));
}

void CertificateRenewal::RenewIfDue() {
  const auto credential = security::ReadCredential(credential_dir_);
  if (!credential.ok()) return;
  const auto due = client::RenewalDue(*credential, Clock::System().Now());
  if (!due.ok() || !*due) return;
  const auto renewed = client::Renew(connection_, *credential, kAttempt);
  const absl::Status written =
      renewed.ok() ? security::WriteCredential(credential_dir_, *renewed) : renewed.status();
  Log(written.ok() ? Severity::kInfo : Severity::kWarning, "certificate_renewed",
      {{"ok", written.ok()}, {"reason", std::string(written.message())}});
}

}  // namespace dp::worker
