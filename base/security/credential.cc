#include "base/security/credential.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/replace_file.h"
#include "base/security/certificate.h"
#include "base/security/safe_path.h"
#include "base/status.h"

namespace dp::security {
namespace {

// Room for the files of a credential.
constexpr size_t kCredentialBytes = 16 << 10;

absl::Status NotRead(const std::string& path, int error) {
  return absl::PermissionDeniedError(absl::StrCat(
      "the credential's file ", path, " cannot be read: ", std::generic_category().message(error),
      "; let this user read it, or name another directory with --credentials"));
}

// Empty: there is no such file.
absl::StatusOr<std::string> ContentsOf(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path, error);
  // The library would throw at the first byte.
  if (std::filesystem::is_directory(found)) return NotRead(path, EISDIR);
  // Opening a FIFO would wait for a writer.
  if (std::filesystem::exists(found) && !std::filesystem::is_regular_file(found)) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the credential's file ", path,
        " is no regular file; put one there, or name another directory with --credentials"));
  }
  std::ifstream file(path, std::ios::binary);
  if (file) return std::string(std::istreambuf_iterator<char>(file), {});
  if (errno == ENOENT) return std::string();
  return NotRead(path, errno);
}

absl::Status NotUsable(const std::string& dir, absl::string_view file, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("the credential's file ", dir, "/", file, " ",
                                                    why,
                                                    "; log in again, or put the right file there"));
}

absl::Status NotWritten(const std::string& path) {
  return absl::PermissionDeniedError(
      absl::StrCat("the credential's file ", path,
                   " cannot be written: ", std::generic_category().message(errno)));
}

absl::Status MakeDir(const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(dir).parent_path(), error);
  return mkdir(dir.c_str(), 0700) == 0 || errno == EEXIST ? absl::OkStatus() : NotWritten(dir);
}

absl::Status Put(const std::string& path, const std::string& contents) {
  if (contents.empty()) {
    return unlink(path.c_str()) == 0 || errno == ENOENT ? absl::OkStatus() : NotWritten(path);
  }
  return ReplaceFile(path, contents) ? absl::OkStatus() : NotWritten(path);
}

}  // namespace

absl::StatusOr<Credential> ReadCredential(const std::string& dir) {
  Credential credential;
  for (const auto& [name, contents] : {std::pair{kAuthoritiesFile, &credential.authorities},
                                       {kChainFile, &credential.chain},
                                       {kKeyFile, &credential.key},
                                       {kTokenFile, &credential.token}}) {
    DP_ASSIGN_OR_RETURN(*contents, ContentsOf(absl::StrCat(dir, "/", name)));
  }
  if (credential.authorities.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is no credential in ", dir, ": it has no file ", kAuthoritiesFile,
                     "; log in, or name another directory with --credentials"));
  }
  if (credential.chain.empty() != credential.key.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the credential in ", dir, " has no file ", credential.key.empty() ? kKeyFile : kChainFile,
        "; log in again, or put the file there"));
  }
  return credential;
}

absl::Status CheckCredential(const Credential& credential, const std::string& dir) {
  const auto authorities = Certificate::AllFromPem(credential.authorities);
  if (!authorities.ok()) return NotUsable(dir, kAuthoritiesFile, "holds no whole certificates");
  if (credential.chain.empty()) return absl::OkStatus();
  const auto chain = Certificate::AllFromPem(credential.chain);
  if (!chain.ok()) return NotUsable(dir, kChainFile, "holds no whole certificates");
  const auto key = KeyPair::FromPem(credential.key);
  if (!key.ok()) return NotUsable(dir, kKeyFile, "holds no whole private key without a password");
  if (chain->front().Fits(*key)) return absl::OkStatus();
  return NotUsable(dir, kKeyFile,
                   absl::StrCat("holds the key of another certificate than ", kChainFile));
}

absl::Status CheckCredentialFiles(const std::string& dir) {
  for (const char* name : {kAuthoritiesFile, kChainFile, kKeyFile, kTokenFile}) {
    const bool secret = name == kKeyFile || name == kTokenFile;
    const std::string path = absl::StrCat(dir, "/", name);
    const absl::Status safe = secret ? CheckPrivateFile(path) : CheckSafePath(path);
    if (safe.ok() || absl::IsNotFound(safe)) continue;
    return absl::PermissionDeniedError(
        absl::StrCat("the credential in ", dir, " is not used: ", safe.message(),
                     "; use one that only you can change, or give --accept-other-users "
                     "(DP_ACCEPT_OTHER_USERS=1) if you trust these users"));
  }
  return absl::OkStatus();
}

absl::Status PrepareCredentialDir(const std::string& dir, bool accept_other_users) {
  DP_RETURN_IF_ERROR(MakeDir(dir));
  if (!accept_other_users) {
    DP_RETURN_IF_ERROR(CheckSafePath(dir));
    DP_RETURN_IF_ERROR(CheckCredentialFiles(dir));
  }
  const std::string probe = dir + "/probe";
  if (!ReplaceFile(probe, std::string(kCredentialBytes, 'x'))) return NotWritten(probe);
  RemoveReplacedFile(probe);
  return absl::OkStatus();
}

absl::Status WriteCredential(const std::string& dir, const Credential& credential) {
  DP_RETURN_IF_ERROR(MakeDir(dir));
  for (const auto& [name, contents] : {std::pair{kKeyFile, &credential.key},
                                       {kChainFile, &credential.chain},
                                       {kTokenFile, &credential.token},
                                       {kAuthoritiesFile, &credential.authorities}}) {
    DP_RETURN_IF_ERROR(Put(absl::StrCat(dir, "/", name), *contents));
  }
  return absl::OkStatus();
}

}  // namespace dp::security
