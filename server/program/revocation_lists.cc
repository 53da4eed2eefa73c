#include "server/program/revocation_lists.h"

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/program/log.h"
#include "base/replace_file.h"
#include "base/security/openssl.h"
#include "base/security/safe_path.h"
#include "base/status.h"

namespace dp::server {
namespace {

namespace fs = std::filesystem;
using CrlPtr = std::unique_ptr<X509_CRL, security::Free<X509_CRL_free>>;

constexpr size_t kHashDigits = 8;
// Far more than a list of a million certificates.
constexpr uintmax_t kListBytesMax = 100 << 20;
// As far as clocks differ (docs/security.md, Certificates).
constexpr absl::Duration kClocksDiffer = absl::Minutes(5);

// Whether OpenSSL looks for files of this name: HASH, `kind`, and a number.
bool IsHashName(const std::string& name, const std::string& kind) {
  const std::string rest = name.size() > kHashDigits ? name.substr(kHashDigits) : "";
  return absl::StartsWith(rest, kind) && rest.size() > kind.size() &&
         std::all_of(name.begin(), name.begin() + kHashDigits, absl::ascii_isxdigit) &&
         std::all_of(rest.begin() + std::ssize(kind), rest.end(), absl::ascii_isdigit);
}

// Whether the name says that the file is a list, which then must be one.
bool IsListName(const std::string& name) {
  return IsHashName(name, ".r") || absl::EndsWith(name, ".crl");
}

// Whether it may be what is left of a list: nothing, or something in DER.
bool MayBeDamaged(const std::string& text) {
  constexpr char kSequence = 0x30;
  return text.empty() || text[0] == kSequence;
}

constexpr char kBetweenNames = '\0';

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

// One list in DER, which fills the whole text, or null.
CrlPtr ListInDer(const std::string& text) {
  const auto* const begin = reinterpret_cast<const unsigned char*>(text.data());
  const unsigned char* at = begin;
  CrlPtr list{d2i_X509_CRL(nullptr, &at, static_cast<long>(text.size()))};
  ERR_clear_error();
  return at == begin + text.size() ? std::move(list) : nullptr;
}

// The lists of the text. Errors: InvalidArgument there is a damaged one.
absl::StatusOr<std::vector<CrlPtr>> ListsIn(const std::string& text) {
  std::vector<CrlPtr> lists;
  if (CrlPtr list = ListInDer(text)) {
    lists.push_back(std::move(list));
    return lists;
  }
  const security::BioPtr from = security::Reading(text);
  while (CrlPtr list{PEM_read_bio_X509_CRL(from.get(), nullptr, security::NoPassword, nullptr)}) {
    lists.push_back(std::move(list));
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (!at_end)
    return security::InvalidBecause(absl::StrCat("damaged behind ", lists.size(), " lists"));
  ERR_clear_error();
  return lists;
}

absl::Time TimeOf(const ASN1_TIME* time, absl::Time otherwise) {
  std::tm parts{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) return otherwise;
  return absl::FromTM(parts, absl::UTCTimeZone());
}

std::string IssuerOf(const X509_CRL* list) {
  unsigned char* bytes = nullptr;
  const int size = i2d_X509_NAME(X509_CRL_get_issuer(list), &bytes);
  std::string issuer(reinterpret_cast<const char*>(bytes), static_cast<size_t>(std::max(size, 0)));
  OPENSSL_free(bytes);
  return issuer;
}

std::string PemOf(X509_CRL* list) {
  const security::BioPtr to = security::Writing();
  PEM_write_bio_X509_CRL(to.get(), list);
  return security::Written(to);
}

// OpenSSL would reject all certificates of the authority, without a word. The list of an authority
// that is not among these is taken as it is.
absl::Status CheckCounts(X509_CRL* list, const std::vector<security::Certificate>& authorities,
                         absl::Time now) {
  const absl::Time begins = TimeOf(X509_CRL_get0_lastUpdate(list), absl::InfiniteFuture());
  if (begins > now + kClocksDiffer)
    return absl::FailedPreconditionError(
        absl::StrCat("it is not valid before ",
                     absl::FormatTime(absl::RFC3339_sec, begins, absl::UTCTimeZone())));
  bool known = false;
  for (const security::Certificate& each : authorities) {
    if (X509_NAME_cmp(X509_get_subject_name(each.get()), X509_CRL_get_issuer(list)) != 0) continue;
    known = true;
    const bool signed_by = X509_CRL_verify(list, X509_get0_pubkey(each.get())) == 1;
    ERR_clear_error();
    if (signed_by) return absl::OkStatus();
  }
  if (!known) return absl::OkStatus();
  return absl::FailedPreconditionError("the authority that it names has not signed it");
}

}  // namespace

RevocationLists::RevocationLists(std::string from, fs::path to, bool accept_other_users)
    : from_(std::move(from)),
      to_(std::move(to)),
      accept_other_users_(accept_other_users),
      revocations_(std::make_shared<security::Revocations>()) {
  const std::string noted = TextIn(HoldersFile()).value_or("");
  holders_ = absl::StrSplit(noted, kBetweenNames, absl::SkipEmpty());
}

fs::path RevocationLists::HoldersFile() const { return to_.string() + ".names"; }

absl::Status RevocationLists::Refresh(const std::vector<security::Certificate>& authorities,
                                      absl::Time now) {
  DP_ASSIGN_OR_RETURN(const std::set<std::string> names, NamesIn());
  std::string against;
  for (const security::Certificate& each : authorities) absl::StrAppend(&against, each.ToPem());
  const bool same_authorities = std::exchange(authorities_, against) == against;
  absl::Status first;
  for (const std::string& name : names) {
    const std::string stamp = StampOf(fs::path(from_) / name);
    if (std::exchange(seen_[name], stamp) != stamp) LogIfIgnored(name);
    const auto file = files_.find(name);
    if (same_authorities && file != files_.end() && file->second.stamp == stamp) continue;
    auto lists = Read(name, authorities, now);
    if (lists.ok()) {
      files_[name] = {stamp, *std::move(lists)};
      changed_ = true;
    }
    first.Update(lists.status());
  }
  const auto is_gone = [&](const auto& each) { return !names.contains(each.first); };
  std::erase_if(seen_, is_gone);
  first.Update(NoteHolders(names));
  if (std::erase_if(files_, is_gone) > 0) changed_ = true;
  if (!changed_) return first;
  const absl::Status written = WriteCopies();
  changed_ = !written.ok();
  if (written.ok()) text_ = TextOfFiles();
  first.Update(written);
  return first;
}

std::string RevocationLists::TextOfFiles() const {
  std::string text;
  for (const auto& [name, file] : files_) {
    if (!file.lists.empty()) absl::StrAppend(&text, "# ", name, " ", file.stamp, "\n");
  }
  return text;
}

bool RevocationLists::MustBeList(const std::string& name, const std::string& text) const {
  return IsListName(name) || holders_.contains(name) || MayBeDamaged(text);
}

absl::Status RevocationLists::NoteHolders(const std::set<std::string>& names) {
  std::set<std::string> holders;
  for (const std::string& name : names) {
    const auto file = files_.find(name);
    const bool holds = file != files_.end() && !file->second.lists.empty();
    if (holds || holders_.contains(name)) holders.insert(name);
  }
  if (holders == holders_) return absl::OkStatus();
  holders_ = std::move(holders);
  const fs::path path = HoldersFile();
  if (ReplaceFile(path, absl::StrJoin(holders_, std::string(1, kBetweenNames)))) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, absl::StrCat(path.string(), " cannot be written"));
}

std::vector<RevocationList> RevocationLists::in_force() const {
  std::vector<RevocationList> lists;
  for (const auto& [name, file] : files_)
    for (const OneList& list : file.lists) lists.push_back(list.about);
  return lists;
}

// OpenSSL would ignore a directory that it cannot read, and accept revoked certificates. A link
// that leads nowhere is no reason to drop the list that it led to.
absl::StatusOr<std::set<std::string>> RevocationLists::NamesIn() const {
  std::set<std::string> names;
  std::error_code error, gone;
  for (fs::directory_iterator at(from_, error), last; !error && at != last; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (IsListName(name) || holders_.contains(name) || fs::is_regular_file(*at, gone)) {
      names.insert(name);
    }
  }
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("--crl-dir ", from_, " cannot be read: ", error.message(),
                     "; name a directory of revocation lists (docs/security.md)"));
  }
  return names;
}

absl::StatusOr<std::vector<RevocationLists::OneList>> RevocationLists::Read(
    const std::string& name, const std::vector<security::Certificate>& authorities,
    absl::Time now) const {
  const std::string path = fs::path(from_) / name;
  const auto unusable = [&path](const absl::Status& why) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--crl-dir: ", path, " cannot be used: ", why.message(), "; put a whole list there"));
  };
  const auto text = TextIn(path);
  const auto crls = text.ok() ? ListsIn(*text) : text.status();
  if (!crls.ok()) return unusable(crls.status());
  if (crls->empty() && MustBeList(name, *text))
    return unusable(absl::InvalidArgumentError("it holds no revocation list"));
  if (!crls->empty() && !accept_other_users_) {
    const absl::Status safe = security::CheckSafePath(path);
    if (!safe.ok()) return absl::Status(safe.code(), absl::StrCat("--crl-dir: ", safe.message()));
  }
  std::vector<OneList> lists;
  for (const CrlPtr& crl : *crls) {
    if (const absl::Status counts = CheckCounts(crl.get(), authorities, now); !counts.ok())
      return unusable(counts);
    OneList& list = lists.emplace_back();
    const auto hash = X509_NAME_hash_ex(X509_CRL_get_issuer(crl.get()), nullptr, nullptr, nullptr);
    list.hash = absl::StrFormat("%08x", hash);
    list.pem = PemOf(crl.get());
    list.about = {path, IssuerOf(crl.get()),
                  TimeOf(X509_CRL_get0_nextUpdate(crl.get()), absl::InfiniteFuture())};
    security::Revocations::AddAll(crl.get(), list.names);
  }
  return lists;
}

void RevocationLists::LogIfIgnored(const std::string& name) const {
  const fs::path path = fs::path(from_) / name;
  const std::string text = TextIn(path).value_or("");
  if (IsHashName(name, ".") || absl::StrContains(text, "CERTIFICATE-----")) {
    return Log(Severity::kWarning, "crl_dir_certificate_ignored",
               {{"file", path.string()},
                {"reason", "only revocation lists count in --crl-dir, and no certificates"},
                {"remedy", "remove the file; --client-ca names authorities"}});
  }
  const auto lists = ListsIn(text);
  if (!lists.ok() || !lists->empty() || MustBeList(name, text)) return;
  Log(Severity::kWarning, "crl_dir_file_ignored",
      {{"file", path.string()},
       {"reason", "it holds no revocation list"},
       {"remedy", "put a list in PEM or DER there, or remove the file"}});
}

absl::Status RevocationLists::WriteCopies() {
  std::map<std::string, std::set<std::string>> by_hash;  // one list may be in several files
  security::Revocations::Keys revoked;
  for (const auto& [name, file] : files_) {
    for (const OneList& list : file.lists) {
      by_hash[list.hash].insert(list.pem);
      revoked.insert(list.names.begin(), list.names.end());
    }
  }
  revocations_->Set(std::move(revoked));
  std::map<std::string, std::string> copies;
  for (const auto& [hash, lists] : by_hash) {
    int number = 0;
    for (const std::string& pem : lists) copies[absl::StrCat(hash, ".r", number++)] = pem;
  }
  (void)mkdir(to_.c_str(), 0700);  // a failure shows when a copy is written
  for (const auto& [name, pem] : copies) {
    const auto copied = copied_.find(name);
    if (copied != copied_.end() && copied->second == pem) continue;
    if (!ReplaceFile(to_ / name, pem))
      return absl::ErrnoToStatus(errno, absl::StrCat((to_ / name).string(), " cannot be written"));
    copied_[name] = pem;
  }
  std::set<fs::path> left_over;
  std::error_code error;
  for (fs::directory_iterator at(to_, error), last; !error && at != last; at.increment(error)) {
    if (!copies.contains(at->path().filename().string())) left_over.insert(at->path());
  }
  for (const fs::path& path : left_over) {
    if (!error) fs::remove(path, error);
    copied_.erase(path.filename().string());
  }
  if (!error) return absl::OkStatus();
  return absl::ErrnoToStatus(error.value(), absl::StrCat(to_.string(), " cannot be written"));
}

}  // namespace dp::server
