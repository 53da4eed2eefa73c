#include "base/security/certificate.h"

#include <openssl/pem.h>

#include <algorithm>
#include <ctime>

#include "absl/strings/escaping.h"
#include "base/check.h"
#include "base/security/openssl.h"
#include "base/status.h"

namespace dp::security {
namespace {

// A key that is encrypted would otherwise be asked for on the terminal.
int NoPassword(char*, int, int, void*) { return -1; }

absl::Time ToTime(const ASN1_TIME* time) {
  std::tm parts{};
  DP_CHECK(ASN1_TIME_to_tm(time, &parts) == 1);
  return absl::FromTM(parts, absl::UTCTimeZone());
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
  return found;
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
  return KeyPair(key);
}

std::string KeyPair::ToPem() const {
  const BioPtr bio = Writing();
  DP_CHECK(PEM_write_bio_PKCS8PrivateKey(bio.get(), get(), nullptr, nullptr, 0, nullptr, nullptr) ==
           1);
  return Written(bio);
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

absl::Time Certificate::not_before() const { return ToTime(X509_get0_notBefore(get())); }

absl::Time Certificate::not_after() const { return ToTime(X509_get0_notAfter(get())); }

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
  char name[256] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(get()), NID_commonName, name, sizeof(name));
  return name;
}

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
