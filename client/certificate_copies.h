#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "base/security/credential.h"
#include "client/pause.h"

namespace dp::client {

// A certificate and its key as files that are never seen empty, and hardly ever torn apart. gRPC
// reads files again while they are used. It ends the process at an empty one, and fails each
// handshake with a pair that does not fit. `cp` empties a file before it writes, and a full disk
// leaves it empty. These files are memory of this process, and change only to what is whole. A
// thread looks every few seconds. Shared by Credentials and the channels that read them;
// thread-safe.
class CertificateCopies {
 public:
  // Copies of the credential in `dir`, which is `credential` now and has a certificate.
  // Errors: ResourceExhausted no descriptor or no memory.
  static absl::StatusOr<std::shared_ptr<CertificateCopies>> Make(
      const std::string& dir, const security::Credential& credential);
  ~CertificateCopies();

  // Valid in this process.
  std::string chain_file() const { return PathOf(chain_); }
  std::string key_file() const { return PathOf(key_); }

  // Takes over what has changed in the directory, if it can be used. Errors: it cannot, as
  // ReadCredential and CheckCredential say.
  absl::Status Refresh();

 private:
  explicit CertificateCopies(std::string dir) : dir_(std::move(dir)) {}
  static std::string PathOf(const FileDescriptor& file);
  bool IsTaken(const security::Credential& credential) const DP_EXCLUDES(mu_);
  absl::Status Take(const security::Credential& credential) DP_EXCLUDES(mu_);

  const std::string dir_;
  FileDescriptor chain_, key_;
  mutable Mutex mu_;
  std::string taken_ DP_GUARDED_BY(mu_);  // both, as they were taken last
  Pause pause_;
  std::jthread thread_;
};

}  // namespace dp::client
