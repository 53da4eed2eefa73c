#include "client/dpctl/program/machine_logins.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "base/status.h"
#include "client/enrolment.h"

namespace dp::ctl {
namespace {

// No command may end noticeably later because of a renewal.
constexpr absl::Duration kRenewal = absl::Seconds(2);
// Far longer than a join token.
constexpr size_t kTokenLineBytesMax = 4096;

absl::StatusOr<std::string> DirFor(const std::string& address) {
  std::string dir = client::LoginDir(address);
  if (!dir.empty()) return dir;
  return absl::FailedPreconditionError(
      "there is no place for the login: neither HOME nor XDG_CONFIG_HOME is set to an absolute "
      "path; set HOME");
}

absl::StatusOr<security::Credential> Enrol(const std::string& address, const std::string& token,
                                           absl::Duration timeout) {
  return client::EnrolByToken(address, token, client::Applicant{}, timeout);
}

// Without flags, a login is the credential that dpctl finds first (client::FindCredentialDir).
void RenewUsed(client::Connection& connection, const std::string& address,
               const client::CredentialFlags& flags) {
  if (flags.insecure || !flags.dir.empty()) return;
  const absl::StatusOr<std::string> dir = DirFor(address);
  // The next command tries again.
  if (dir.ok()) (void)RenewLogin(*dir, connection, Clock::System().Now());
}

std::optional<std::string> ReadLine() {
  if (isatty(STDIN_FILENO) != 0) return std::nullopt;
  char line[kTokenLineBytesMax] = "";
  std::cin.getline(line, sizeof(line));
  return line;
}

}  // namespace

Logins MachineLogins() {
  return {.dir = DirFor,
          .prepare = security::PrepareCredentialDir,
          .enrol = Enrol,
          .save = security::WriteCredential,
          .remove = RemoveLogin,
          .renew = RenewUsed,
          .read_line = ReadLine};
}

absl::StatusOr<bool> RemoveLogin(const std::string& dir) {
  std::error_code error;
  const auto removed = std::filesystem::remove_all(dir, error);
  if (!error) return removed > 0;
  return absl::PermissionDeniedError(
      absl::StrCat("the login in ", dir, " cannot be removed: ", error.message()));
}

absl::Status RenewLogin(const std::string& dir, client::Connection& connection, absl::Time now) {
  DP_ASSIGN_OR_RETURN(security::Credential credential, security::ReadCredential(dir));
  DP_ASSIGN_OR_RETURN(bool due, client::RenewalDue(credential, now));
  if (!due) return absl::OkStatus();
  const std::string lock_file = dir + "/renewal.lock";
  const FileDescriptor lock(open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid() || flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return absl::OkStatus();
  // Another process may have renewed it before this one got the lock.
  DP_ASSIGN_OR_RETURN(credential, security::ReadCredential(dir));
  DP_ASSIGN_OR_RETURN(due, client::RenewalDue(credential, now));
  if (!due) return absl::OkStatus();
  DP_ASSIGN_OR_RETURN(const security::Credential renewed,
                      client::Renew(connection, credential, kRenewal));
  DP_ASSIGN_OR_RETURN(const security::Credential latest, security::ReadCredential(dir));
  return latest.key == credential.key ? security::WriteCredential(dir, renewed) : absl::OkStatus();
}

}  // namespace dp::ctl
