#include "server/program/list_expiry.h"

#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

#include "base/security/openssl.h"

namespace dp::server {
namespace {

using security::Free;
using CrlPtr = std::unique_ptr<X509_CRL, Free<X509_CRL_free>>;

absl::Time EndOf(const X509_CRL* list) {
  const ASN1_TIME* const next = X509_CRL_get0_nextUpdate(list);
  std::tm parts{};
  if (next == nullptr || ASN1_TIME_to_tm(next, &parts) != 1) return absl::InfiniteFuture();
  return absl::FromTM(parts, absl::UTCTimeZone());
}

std::string IssuerOf(const X509_CRL* list) {
  unsigned char* bytes = nullptr;
  const int size = i2d_X509_NAME(X509_CRL_get_issuer(list), &bytes);
  std::string issuer(reinterpret_cast<const char*>(bytes), static_cast<size_t>(std::max(size, 0)));
  OPENSSL_free(bytes);
  return issuer;
}

void AddListsIn(const std::filesystem::path& path, std::vector<RevocationList>* lists) {
  std::ifstream file(path, std::ios::binary);
  const std::string pem(std::istreambuf_iterator<char>(file), {});
  const security::BioPtr reader = security::Reading(pem);
  while (const auto list =
             CrlPtr(PEM_read_bio_X509_CRL(reader.get(), nullptr, security::NoPassword, nullptr))) {
    lists->push_back({path.filename().string(), IssuerOf(list.get()), EndOf(list.get())});
  }
  ERR_clear_error();
}

}  // namespace

std::vector<RevocationList> ReadRevocationLists(const std::string& dir) {
  std::vector<RevocationList> lists;
  std::error_code error;
  for (std::filesystem::directory_iterator at(dir, error), last; !error && at != last;
       at.increment(error)) {
    AddListsIn(at->path(), &lists);
  }
  return lists;
}

std::vector<RevocationListWatch::Warning> RevocationListWatch::Due(
    const std::vector<RevocationList>& lists, absl::Time now) {
  std::map<std::string, const RevocationList*> latest;
  for (const RevocationList& list : lists) {
    const RevocationList*& kept = latest.try_emplace(list.issuer, &list).first->second;
    if (list.ends > kept->ends) kept = &list;
  }
  std::vector<Warning> due;
  std::map<std::string, Said> said;
  for (const auto& [issuer, list] : latest) {
    if (list->ends > now + kSoon) continue;
    const bool expired = list->ends <= now;
    const auto before = said_.find(issuer);
    const bool known = before != said_.end() && before->second.ends == list->ends &&
                       before->second.expired == expired;
    if (known && (!expired || now < before->second.at + kAgain)) {
      said.insert(*before);
      continue;
    }
    due.push_back({*list, expired});
    said.emplace(issuer, Said{list->ends, expired, now});
  }
  said_ = std::move(said);
  return due;
}

}  // namespace dp::server
