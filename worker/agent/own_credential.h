#pragma once

#include <functional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "client/connection.h"
#include "client/credentials.h"
#include "client/enrolment.h"
#include "client/pause.h"

namespace dp::worker {

// The flags of a daemon about its identity.
struct IdentityFlags {
  client::CredentialFlags credentials;
  std::string join;  // a join token; empty: none
  client::Applicant applicant;
};

// Finds the daemon's certificate, or gets one. The certificate stays in the state directory, so
// that a daemon that is restarted has it and keeps its name. Order: the certificate there; a join
// token; a credential that was named, or is the user's own. If that last one is a worker's, as one
// from Kubernetes or a corporate authority, the daemon uses it as it is. If it is a person's, that
// person joins the worker. Blocks while the coordinator cannot be reached.
// `pause` ends the waiting, and `alive` is called during it. Returns the directory of the
// credential; empty: calls in plain text. Errors: InvalidArgument the join token is a person's, or
// cannot be read, whatever else there is. Unauthenticated there is no credential, or the
// coordinator refuses it. PermissionDenied the person may not join workers, or a file cannot be
// used, or other users can change or read the credential. Cancelled the pause was stopped.
absl::StatusOr<std::string> OpenCredential(
    const std::string& coordinator, const std::string& state_dir, const IdentityFlags& flags,
    client::Pause& pause, const std::function<void()>& alive = [] {});

// The name that the certificate in the directory gives the worker. Errors: FailedPrecondition it is
// no worker's.
absl::StatusOr<std::string> WorkerNameIn(const std::string& credential_dir);

// The directory of an administrator's credential that this daemon's user can read. Ranks that run
// as this user can administer the cluster by it. Looks at `given`, at the login, and at that of a
// coordinator of this user on this host. Empty: there is none.
std::string ReadableAdmin(const std::string& coordinator, const std::string& given);

// Renews the certificate in a directory when half of its life is over. Does nothing for one from
// elsewhere, which is renewed there. The connection, which uses the certificate, must outlive it.
class CertificateRenewal {
 public:
  CertificateRenewal(client::Connection& connection, std::string credential_dir,
                     const std::string& state_dir);
  ~CertificateRenewal();

 private:
  void Run();
  void RenewIfDue();

  client::Connection& connection_;
  const std::string credential_dir_;
  client::Pause pause_;
  std::jthread thread_;
};

}  // namespace dp::worker
