#include "client/certificate_copies.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status.h"

namespace dp::client {
namespace {

constexpr absl::Duration kLookAgainEvery = absl::Seconds(5);

std::string BothOf(const security::Credential& credential) {
  return absl::StrCat(credential.key, credential.chain);
}

// Not truncated first: whoever reads meanwhile finds text.
absl::Status Replace(const FileDescriptor& file, const std::string& text) {
  const auto size = static_cast<ssize_t>(text.size());
  if (pwrite(file.get(), text.data(), text.size(), 0) == size && ftruncate(file.get(), size) == 0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, "no memory for a copy of the certificate");
}

}  // namespace

absl::StatusOr<std::shared_ptr<CertificateCopies>> CertificateCopies::Make(
    const std::string& dir, const security::Credential& credential) {
  std::shared_ptr<CertificateCopies> copies(new CertificateCopies(dir));
  copies->chain_ = FileDescriptor(memfd_create("dp-chain", MFD_CLOEXEC));
  copies->key_ = FileDescriptor(memfd_create("dp-key", MFD_CLOEXEC));
  if (!copies->chain_.valid() || !copies->key_.valid()) {
    return absl::ErrnoToStatus(errno, "no descriptor for a copy of the certificate");
  }
  DP_RETURN_IF_ERROR(copies->Take(credential));
  copies->thread_ = std::jthread([copy = copies.get()] {
    pthread_setname_np(pthread_self(), "dp-certificate");
    // An error leaves the former certificate in use, until it expires.
    while (copy->pause_.For(kLookAgainEvery)) (void)copy->Refresh();
  });
  return copies;
}

CertificateCopies::~CertificateCopies() { pause_.Stop(); }

std::string CertificateCopies::PathOf(const FileDescriptor& file) {
  return absl::StrCat("/proc/self/fd/", file.get());
}

absl::Status CertificateCopies::Refresh() {
  DP_ASSIGN_OR_RETURN(const security::Credential credential, security::ReadCredential(dir_));
  if (credential.chain.empty() || IsTaken(credential)) return absl::OkStatus();
  DP_RETURN_IF_ERROR(security::CheckCredential(credential, dir_));
  return Take(credential);
}

bool CertificateCopies::IsTaken(const security::Credential& credential) const {
  MutexLock lock(mu_);
  return taken_ == BothOf(credential);
}

absl::Status CertificateCopies::Take(const security::Credential& credential) {
  MutexLock lock(mu_);
  DP_RETURN_IF_ERROR(Replace(key_, credential.key));
  DP_RETURN_IF_ERROR(Replace(chain_, credential.chain));
  taken_ = BothOf(credential);
  return absl::OkStatus();
}

}  // namespace dp::client
