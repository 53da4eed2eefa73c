#include "server/program/revocation_lists.h"

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/program/log.h"
#include "base/replace_file.h"
#include "base/security/openssl.h"
#include "base/security/safe_path.h"
#include "base/status.h"

namespace dp::server {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHashDigits = 8;

// Whether OpenSSL looks for files of this name: HASH, `kind`, and a number.
bool IsHashName(const std::string& name, const std::string& kind) {
  const auto is_hex = [](char each) {
    return absl::ascii_isxdigit(each) && !(each < 'a' && each > '9');
  };
  const std::string rest = name.size() > kHashDigits ? name.substr(kHashDigits) : "";
  return absl::StartsWith(rest, kind) && rest.size() > kind.size() &&
         std::all_of(name.begin(), name.begin() + kHashDigits, is_hex) &&
         std::all_of(rest.begin() + std::ssize(kind), rest.end(), absl::ascii_isdigit);
}

bool IsListName(const std::string& name) { return IsHashName(name, ".r"); }

// Far more than a list of a million certificates.
constexpr uintmax_t kListBytesMax = 100 << 20;

// Errors: FailedPrecondition the file cannot be read, or is too large.
absl::StatusOr<std::string> TextIn(const fs::path& path) {
  std::error_code error;
  const bool regular = fs::is_regular_file(path, error);
  if (error) return absl::FailedPreconditionError(error.message());
  if (!regular) return absl::FailedPreconditionError("it is no regular file");
  if (fs::file_size(path, error) > kListBytesMax || error)
    return absl::FailedPreconditionError(error ? error.message() : "it is larger than 100 MiB");
  std::ifstream file(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file.is_open()) return absl::FailedPreconditionError(std::generic_category().message(errno));
  return text;
}

// Changes with the file, its owner and its mode; or those of the file that a link leads to.
std::string StampOf(const fs::path& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return "";
  return absl::StrCat(found.st_ino, " ", found.st_size, " ", found.st_ctim.tv_sec, ".",
                      found.st_ctim.tv_nsec);
}

// The lists of the text, and nothing else. Errors: InvalidArgument there is none, or a damaged one.
absl::StatusOr<std::string> OnlyListsOf(const std::string& text) {
  using ListPtr = std::unique_ptr<X509_CRL, security::Free<X509_CRL_free>>;
  const security::BioPtr from = security::Reading(text), to = security::Writing();
  int lists = 0;
  while (const ListPtr list{
      PEM_read_bio_X509_CRL(from.get(), nullptr, security::NoPassword, nullptr)}) {
    if (PEM_write_bio_X509_CRL(to.get(), list.get()) != 1) break;
    ++lists;
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (lists == 0) return security::InvalidBecause("it holds no revocation list in PEM");
  if (!at_end) return security::InvalidBecause(absl::StrCat("damaged behind ", lists, " lists"));
  ERR_clear_error();
  return security::Written(to);
}

}  // namespace

RevocationLists::RevocationLists(std::string from, fs::path to, bool accept_other_users)
    : from_(std::move(from)), to_(std::move(to)), accept_other_users_(accept_other_users) {}

absl::Status RevocationLists::Refresh() {
  DP_ASSIGN_OR_RETURN(const std::set<std::string> names, NamesIn());
  (void)mkdir(to_.c_str(), 0700);  // a failure shows when a copy is written
  absl::Status first;
  for (const std::string& name : names) {
    const std::string stamp = StampOf(fs::path(from_) / name);
    if (std::exchange(seen_[name], stamp) != stamp) LogIfCertificate(name);
    const auto copied = copied_.find(name);
    if (!IsListName(name) || (copied != copied_.end() && copied->second == stamp)) continue;
    const absl::Status usable = Copy(name);
    if (usable.ok()) copied_[name] = stamp;
    first.Update(usable);
  }
  std::erase_if(seen_, [&](const auto& each) { return !names.contains(each.first); });
  first.Update(RemoveCopiesBut(names));
  return first;
}

std::string RevocationLists::text() const {
  std::string text;
  for (const auto& [name, stamp] : copied_) absl::StrAppend(&text, "# ", name, " ", stamp, "\n");
  return text;
}

// OpenSSL would ignore a directory that it cannot read, and accept revoked certificates. A link
// that leads nowhere is no reason to drop the list that it led to.
absl::StatusOr<std::set<std::string>> RevocationLists::NamesIn() const {
  std::set<std::string> names;
  std::error_code error, gone;
  for (fs::directory_iterator at(from_, error), last; !error && at != last; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (IsListName(name) || fs::is_regular_file(*at, gone)) names.insert(name);
  }
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("--crl-dir ", from_, " cannot be read: ", error.message(),
                     "; name a directory of revocation lists (docs/security.md)"));
  }
  return names;
}

absl::Status RevocationLists::Copy(const std::string& name) {
  const std::string path = fs::path(from_) / name;
  if (!accept_other_users_) {
    const absl::Status safe = security::CheckSafePath(path);
    if (!safe.ok() && !absl::IsNotFound(safe)) {  // TextIn names what is missing
      return absl::Status(safe.code(), absl::StrCat("--crl-dir: ", safe.message()));
    }
  }
  const auto text = TextIn(path);
  const auto lists = text.ok() ? OnlyListsOf(*text) : text.status();
  if (!lists.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("--crl-dir: ", path,
                                                      " cannot be used: ", lists.status().message(),
                                                      "; put a whole list there"));
  }
  if (ReplaceFile(to_ / name, *lists)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      (to_ / name).string(), " cannot be written: ", std::generic_category().message(errno)));
}

void RevocationLists::LogIfCertificate(const std::string& name) {
  const fs::path path = fs::path(from_) / name;
  const bool holds_one = absl::StrContains(TextIn(path).value_or(""), "CERTIFICATE-----");
  if (!IsHashName(name, ".") && !holds_one) return;
  Log(Severity::kWarning, "crl_dir_certificate_ignored",
      {{"file", path.string()},
       {"reason", "only revocation lists count in --crl-dir, and no certificates"},
       {"remedy", "remove the file; --client-ca names authorities"}});
}

absl::Status RevocationLists::RemoveCopiesBut(const std::set<std::string>& names) {
  std::set<std::string> gone;
  std::error_code error;
  for (fs::directory_iterator at(to_, error), last; !error && at != last; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!names.contains(name)) gone.insert(name);
  }
  for (const std::string& name : gone) {
    copied_.erase(name);
    if (!error) fs::remove(to_ / name, error);
  }
  if (!error) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(to_.string(), " cannot be written: ", error.message()));
}

}  // namespace dp::server
