#pragma once

#include <openssl/x509v3.h>

#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/security/certificate.h"
#include "base/security/certificate_authority.h"
#include "base/security/openssl.h"

// For tests: a certificate as another organization's authority makes it.

namespace dp::security {

// Its contents, in OpenSSL's notation.
struct ForeignNames {
  std::string common_name = {};
  std::string alternative = {};  // "URI:https://example.org,email:ann@example.org"; empty: none
};

// A certificate of the key for a client, valid for an hour from `now` on.
inline Certificate ForeignCertificate(const CertificateAuthority& authority, const KeyPair& key,
                                      const ForeignNames& names, absl::Time now = absl::Now()) {
  X509* const made = X509_new();
  Certificate certificate(made);
  X509_set_version(made, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(made), 7);
  ASN1_TIME_set(X509_getm_notBefore(made), absl::ToTimeT(now - absl::Hours(1)));
  ASN1_TIME_set(X509_getm_notAfter(made), absl::ToTimeT(now + absl::Hours(1)));
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(names.common_name.data()),
                             static_cast<int>(names.common_name.size()), -1, 0);
  X509_set_issuer_name(made, X509_get_subject_name(authority.certificate().get()));
  X509_set_pubkey(made, key.get());
  const auto add = [&](int kind, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, authority.certificate().get(), made, nullptr, nullptr, 0);
    const ExtensionPtr extension(X509V3_EXT_nconf_nid(nullptr, &context, kind, value.c_str()));
    DP_CHECK(extension != nullptr && X509_add_ext(made, extension.get(), -1) == 1);
  };
  add(NID_authority_key_identifier, "keyid:always");
  if (!names.alternative.empty()) add(NID_subject_alt_name, names.alternative);
  DP_CHECK(X509_sign(made, authority.key().get(), EVP_sha256()) > 0);
  return certificate;
}

}  // namespace dp::security
