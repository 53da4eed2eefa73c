#include "base/security/certificate.h"

#include <openssl/pem.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/check.h"
#include "base/security/openssl.h"
#include "base/status.h"

namespace dp::security {
namespace {

// `malformed` if it is no time: certificates come from files and from servers, too.
absl::Time ToTime(const ASN1_TIME* time, absl::Time malformed) {
  std::tm parts{};
  const bool good = ASN1_TIME_to_tm(time, &parts) == 1;
  ERR_clear_error();
  return good ? absl::FromTM(parts, absl::UTCTimeZone()) : malformed;
}

std::string TextOf(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

// The alternative names of one type: URI, mail address or DNS name.
std::vector<std::string> NamesOf(X509* certificate, int type) {
  const NamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> found;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == type) found.push_back(TextOf(name->d.ia5));
  }
  ERR_clear_error();  // of a malformed extension, which counts as none
  return found;
}

// Converted to UTF-8 as a whole: a shorter name could be that of somebody else.
std::string CommonNameOf(X509* certificate) {
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return "";
  unsigned char* text = nullptr;
  const ASN1_STRING* const name = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
  const int size = ASN1_STRING_to_UTF8(&text, name);
  ERR_clear_error();
  if (size < 0) return "";
  std::string converted(reinterpret_cast<const char*>(text), static_cast<size_t>(size));
  OPENSSL_free(text);
  return converted;
}

// Nothing if OpenSSL cannot write the key. It reads some whose number is too long for their curve.
std::optional<std::string> Pkcs8Of(EVP_PKEY* key) {
  const BioPtr bio = Writing();
  const bool written =
      PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1;
  ERR_clear_error();
  return written ? std::optional(Written(bio)) : std::nullopt;
}

}  // namespace

KeyPair::KeyPair(EVP_PKEY* key) : key_(key, EVP_PKEY_free) {}

KeyPair KeyPair::Make() {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  DP_CHECK(key != nullptr);
  return KeyPair(key);
}

absl::StatusOr<KeyPair> KeyPair::FromPem(const std::string& pem) {
  EVP_PKEY* const key = PEM_read_bio_PrivateKey(Reading(pem).get(), nullptr, NoPassword, nullptr);
  if (key == nullptr) return InvalidBecause("no private key in PEM");
  KeyPair pair(key);
  if (!Pkcs8Of(key).has_value()) return InvalidBecause("a damaged private key");
  return pair;
}

std::string KeyPair::ToPem() const {
  std::optional<std::string> pem = Pkcs8Of(get());
  DP_CHECK(pem.has_value());
  return *std::move(pem);
}

bool KeyPair::IsWhole() const {
  const KeyContextPtr context(EVP_PKEY_CTX_new(get(), nullptr));
  const bool whole = context != nullptr && EVP_PKEY_pairwise_check(context.get()) == 1;
  ERR_clear_error();
  return whole;
}

std::string KeyPair::SigningRequest() const {
  const RequestPtr request(X509_REQ_new());
  DP_CHECK(X509_REQ_set_pubkey(request.get(), get()) == 1);
  DP_CHECK(X509_REQ_sign(request.get(), get(), EVP_sha256()) > 0);
  const BioPtr bio = Writing();
  DP_CHECK(PEM_write_bio_X509_REQ(bio.get(), request.get()) == 1);
  return Written(bio);
}

Certificate::Certificate(X509* certificate) : certificate_(certificate, X509_free) {}

absl::StatusOr<Certificate> Certificate::FromPem(const std::string& pem) {
  X509* const certificate = PEM_read_bio_X509(Reading(pem).get(), nullptr, NoPassword, nullptr);
  if (certificate == nullptr) return InvalidBecause("no certificate in PEM");
  return Certificate(certificate);
}

absl::StatusOr<std::vector<Certificate>> Certificate::AllFromPem(const std::string& pem) {
  const BioPtr bio = Reading(pem);
  std::vector<Certificate> all;
  // In all forms that gRPC reads.
  while (X509* const each = PEM_read_bio_X509_AUX(bio.get(), nullptr, NoPassword, nullptr)) {
    all.emplace_back(each);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (all.empty()) return InvalidBecause("no certificate in PEM");
  if (!at_end) return InvalidBecause(absl::StrCat("damaged behind ", all.size(), " certificates"));
  ERR_clear_error();
  return all;
}

std::string Certificate::ToPem() const {
  const BioPtr bio = Writing();
  DP_CHECK(PEM_write_bio_X509(bio.get(), get()) == 1);
  return Written(bio);
}

std::string Certificate::Fingerprint() const {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  DP_CHECK(X509_digest(get(), EVP_sha256(), digest, &size) == 1);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest), size});
}

absl::Time Certificate::not_before() const {
  return ToTime(X509_get0_notBefore(get()), absl::InfiniteFuture());
}

absl::Time Certificate::not_after() const {
  return ToTime(X509_get0_notAfter(get()), absl::InfinitePast());
}

absl::StatusOr<Identity> Certificate::identity() const {
  std::vector<std::string> uris = NamesOf(get(), GEN_URI);
  uris.erase(std::remove_if(uris.begin(), uris.end(),
                            [](const std::string& uri) { return !IsDpUri(uri); }),
             uris.end());
  if (uris.empty()) return absl::NotFoundError("the certificate holds no identity");
  if (uris.size() == 1) return ParseUri(uris.front());
  return absl::InvalidArgumentError("the certificate holds more than one identity");
}

std::string Certificate::subject() const {
  for (const int type : {GEN_URI, GEN_EMAIL, GEN_DNS}) {
    if (const auto names = NamesOf(get(), type); !names.empty()) return names.front();
  }
  return CommonNameOf(get());
}

bool Certificate::IsAuthority() const { return X509_check_ca(get()) != 0; }

bool Certificate::IsSignedBy(const Certificate& authority) const {
  const bool is = X509_verify(get(), X509_get0_pubkey(authority.get())) == 1;
  ERR_clear_error();
  return is;
}

bool Certificate::Fits(const KeyPair& key) const {
  const bool fits = X509_check_private_key(get(), key.get()) == 1;
  ERR_clear_error();
  return fits;
}

}  // namespace dp::security
