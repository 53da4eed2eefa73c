#include "base/security/revocations.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace dp::security {
namespace {

size_t KeyOf(const X509_NAME* issuer, const ASN1_INTEGER* serial) {
  const unsigned char* name = nullptr;
  size_t size = 0;
  X509_NAME_get0_der(issuer, &name, &size);
  std::string both(reinterpret_cast<const char*>(name), size);
  both.append(reinterpret_cast<const char*>(ASN1_STRING_get0_data(serial)),
              static_cast<size_t>(ASN1_STRING_length(serial)));
  return std::hash<std::string>()(both);
}

}  // namespace

void Revocations::AddAll(X509_CRL* list, Keys& keys) {
  const auto* const revoked = X509_CRL_get_REVOKED(list);
  for (int i = 0; i < sk_X509_REVOKED_num(revoked); ++i) {
    const X509_REVOKED* const each = sk_X509_REVOKED_value(revoked, i);
    keys.insert(KeyOf(X509_CRL_get_issuer(list), X509_REVOKED_get0_serialNumber(each)));
  }
}

void Revocations::Set(Keys keys) {
  MutexLock lock(mu_);
  keys_ = std::move(keys);
}

bool Revocations::Revoke(const Certificate& certificate) const {
  const size_t key =
      KeyOf(X509_get_issuer_name(certificate.get()), X509_get0_serialNumber(certificate.get()));
  MutexLock lock(mu_);
  return keys_.contains(key);
}

bool Revocations::RevokeAnyOf(std::string_view chain) const {
  const auto certificates = Certificate::AllFromPem(std::string(chain));
  return certificates.ok() && std::any_of(certificates->begin(), certificates->end(),
                                          [this](const auto& each) { return Revoke(each); });
}

}  // namespace dp::security
