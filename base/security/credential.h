#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dp::security {

// The proof that a program shows to a coordinator, and whom it trusts, as files of one directory.
// They have the names that Kubernetes' secrets and cert-manager give them, so such a secret can be
// mounted.
inline constexpr char kAuthoritiesFile[] = "ca.crt";
inline constexpr char kChainFile[] = "tls.crt";
inline constexpr char kKeyFile[] = "tls.key";
inline constexpr char kTokenFile[] = "token";

// The contents of the files. A rank has a token in place of chain and key. Secret.
struct Credential {
  std::string authorities;  // certificates in PEM: whom to trust
  std::string chain = {};   // the own certificate in PEM, first; empty: none
  std::string key = {};     // its private key in PEM
  std::string token = {};   // empty: none
};

// Errors: NotFound there is no kAuthoritiesFile; PermissionDenied a file may not be read;
// FailedPrecondition a key without its certificate, or a certificate without its key.
absl::StatusOr<Credential> ReadCredential(const std::string& dir);

// Whether the files of `dir`, whose contents these are, can be used: each parses as a whole, and
// the key is that of the certificate. gRPC would fail later, in the words of OpenSSL or without
// any. Errors: FailedPrecondition names the file and the remedy.
absl::Status CheckCredential(const Credential& credential, const std::string& dir);

// Whether nobody else can write or replace the files of `dir` (CheckSafePath), or read its key and
// token (CheckPrivateFile). Whoever can decides which coordinator the caller trusts, and as whom it
// calls. Others may add files to the directory if it has the sticky bit, as a volume of Kubernetes:
// these are theirs, and thus refused. Files that do not exist are safe.
// Errors: PermissionDenied names the path, its owner and mode, and the remedy.
absl::Status CheckCredentialFiles(const std::string& dir);

// Makes the directory (0700) if it is missing, and checks that a credential can be written there.
// Unless other users are accepted, also that nobody else could use or replace it. Call it before a
// token that counts once is exchanged. Errors: PermissionDenied names the path and the reason.
absl::Status PrepareCredentialDir(const std::string& dir, bool accept_other_users);

// Makes the directory (0700) if it is missing, and replaces its files (0600) one by one: the key
// before the certificate. Files of empty contents are removed.
// Errors: PermissionDenied names the path and the reason.
absl::Status WriteCredential(const std::string& dir, const Credential& credential);

}  // namespace dp::security
