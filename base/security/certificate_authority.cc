#include "base/security/certificate_authority.h"

#include <openssl/pem.h>
#include <openssl/rand.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/security/openssl.h"
#include "base/status.h"

namespace dp::security {
namespace {

// Serial numbers are random, so that an authority need not count (RFC 5280 allows 20 octets).
constexpr size_t kSerialBytes = 16;

void SetSerial(X509* certificate) {
  unsigned char bytes[kSerialBytes];
  DP_CHECK(RAND_bytes(bytes, sizeof(bytes)) == 1);
  bytes[0] &= 0x7f;  // positive
  BIGNUM* const number = BN_bin2bn(bytes, sizeof(bytes), nullptr);
  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate));
  BN_free(number);
}

void SetTimes(X509* certificate, absl::Time from, absl::Time until) {
  DP_CHECK(ASN1_TIME_set(X509_getm_notBefore(certificate), absl::ToTimeT(from)) != nullptr);
  DP_CHECK(ASN1_TIME_set(X509_getm_notAfter(certificate), absl::ToTimeT(until)) != nullptr);
}

// For people: programs read the identity.
void SetCommonName(X509_NAME* name, const std::string& text) {
  // The field holds 64 characters at most.
  const std::string fits = text.substr(0, 64);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(fits.data()),
                             static_cast<int>(fits.size()), -1, 0);
  ERR_clear_error();  // a name that is cut within a character is left out
}

// `value` in OpenSSL's notation (x509v3_config(5)); constant texts only.
void AddExtension(X509* certificate, X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension(X509V3_EXT_nconf_nid(nullptr, &context, kind, value));
  DP_CHECK(extension != nullptr);
  DP_CHECK(X509_add_ext(certificate, extension.get(), -1) == 1);
}

void AddName(GENERAL_NAMES* names, int type, ASN1_STRING* text) {
  GENERAL_NAME* const name = GENERAL_NAME_new();
  GENERAL_NAME_set0_value(name, type, text);
  sk_GENERAL_NAME_push(names, name);
}

ASN1_STRING* Ia5(const std::string& text) {
  ASN1_STRING* const string = ASN1_IA5STRING_new();
  DP_CHECK(ASN1_STRING_set(string, text.data(), static_cast<int>(text.size())) == 1);
  return string;
}

// Built by hand: in OpenSSL's notation a name with a comma would be two.
void AddAlternativeNames(X509* certificate, const Grant& grant) {
  const NamesPtr names(GENERAL_NAMES_new());
  AddName(names.get(), GEN_URI, Ia5(ToUri(grant.identity)));
  for (const std::string& host : grant.hosts) {
    if (ASN1_OCTET_STRING* const address = a2i_IPADDRESS(host.c_str())) {
      AddName(names.get(), GEN_IPADD, address);
    } else {
      AddName(names.get(), GEN_DNS, Ia5(host));
    }
  }
  ERR_clear_error();
  DP_CHECK(X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), 0, 0) == 1);
}

Certificate Begun(absl::Time from, absl::Time until) {
  X509* const made = X509_new();
  DP_CHECK(made != nullptr);
  X509_set_version(made, X509_VERSION_3);
  SetSerial(made);
  SetTimes(made, from, until);
  return Certificate(made);
}

// A request for the longest key in use, RSA with 16,384 bits, has less than half of it. Callers
// wait while one is checked.
constexpr size_t kSigningRequestBytesMax = 16 << 10;

// Errors: InvalidArgument.
absl::StatusOr<PublicKeyPtr> KeyOf(const std::string& signing_request) {
  if (signing_request.size() > kSigningRequestBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the signing request has ", signing_request.size(), " bytes, the limit is ",
                     kSigningRequestBytesMax, "; make one for a shorter key"));
  }
  const RequestPtr request(
      PEM_read_bio_X509_REQ(Reading(signing_request).get(), nullptr, NoPassword, nullptr));
  if (request == nullptr) return InvalidBecause("no signing request in PEM");
  PublicKeyPtr key(X509_REQ_get_pubkey(request.get()));
  if (key == nullptr || X509_REQ_verify(request.get(), key.get()) != 1) {
    return InvalidBecause("the signing request is not signed by its own key");
  }
  ERR_clear_error();
  return key;
}

}  // namespace

CertificateAuthority CertificateAuthority::Make(absl::Time now) {
  KeyPair key = KeyPair::Make();
  Certificate own = Begun(now - kClockSkew, now + kLifetime);
  X509* const certificate = own.get();
  SetCommonName(X509_get_subject_name(certificate), "dp authority");
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
  X509_set_pubkey(certificate, key.get());
  // It signs certificates of programs, and no further authorities.
  AddExtension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  AddExtension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
  AddExtension(certificate, certificate, NID_subject_key_identifier, "hash");
  DP_CHECK(X509_sign(certificate, key.get(), EVP_sha256()) > 0);
  return CertificateAuthority(std::move(own), std::move(key));
}

absl::StatusOr<CertificateAuthority> CertificateAuthority::FromPem(const std::string& certificate,
                                                                   const std::string& key) {
  DP_ASSIGN_OR_RETURN(Certificate own, Certificate::FromPem(certificate));
  DP_ASSIGN_OR_RETURN(KeyPair pair, KeyPair::FromPem(key));
  if (!own.Fits(pair)) {
    return absl::InvalidArgumentError("the authority's key is not that of its certificate");
  }
  const bool may_sign = X509_check_ca(own.get()) == 1;
  ERR_clear_error();  // of malformed extensions
  if (!may_sign) {
    return absl::InvalidArgumentError("the certificate is not that of an authority");
  }
  return CertificateAuthority(std::move(own), std::move(pair));
}

absl::StatusOr<Certificate> CertificateAuthority::Issue(const std::string& signing_request,
                                                        const Grant& grant, absl::Time now) const {
  DP_ASSIGN_OR_RETURN(const PublicKeyPtr key, KeyOf(signing_request));
  Certificate issued =
      Begun(now - kClockSkew, std::min(now + grant.lifetime, certificate_.not_after()));
  X509* const certificate = issued.get();
  SetCommonName(X509_get_subject_name(certificate), ToString(grant.identity));
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate_.get()));
  X509_set_pubkey(certificate, key.get());
  AddExtension(certificate, certificate_.get(), NID_basic_constraints, "critical,CA:FALSE");
  AddExtension(certificate, certificate_.get(), NID_key_usage, "critical,digitalSignature");
  AddExtension(certificate, certificate_.get(), NID_ext_key_usage,
               grant.hosts.empty() ? "clientAuth" : "serverAuth,clientAuth");
  AddExtension(certificate, certificate_.get(), NID_authority_key_identifier, "keyid:always");
  AddAlternativeNames(certificate, grant);
  DP_CHECK(X509_sign(certificate, key_.get(), EVP_sha256()) > 0);
  return issued;
}

}  // namespace dp::security
