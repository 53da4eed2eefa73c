#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/security/identity.h"

// Keys and X.509 certificates (RFC 5280) by OpenSSL, in PEM. Values; const members are thread-safe.

typedef struct evp_pkey_st EVP_PKEY;
typedef struct x509_st X509;

namespace dp::security {

// A key pair: ECDSA on P-256, which every TLS library knows.
class KeyPair {
 public:
  static KeyPair Make();
  // Errors: InvalidArgument it is no private key in PEM, an encrypted one or a damaged one.
  static absl::StatusOr<KeyPair> FromPem(const std::string& pem);

  // The private key, not encrypted: keep it in files of mode 0600.
  std::string ToPem() const;
  // Asks an authority for a certificate of this key: a PKCS #10 request without a name, since the
  // authority decides about names.
  std::string SigningRequest() const;

  // Whether the private part belongs to the public one. Damage may have changed either.
  bool IsWhole() const;

  EVP_PKEY* get() const { return key_.get(); }

 private:
  explicit KeyPair(EVP_PKEY* key);

  std::shared_ptr<EVP_PKEY> key_;
};

class Certificate {
 public:
  // The first certificate of a chain. Errors: InvalidArgument there is none.
  static absl::StatusOr<Certificate> FromPem(const std::string& pem);
  // All certificates of the text, which may have other text between them. gRPC and OpenSSL's own
  // programs stop in silence at the first damaged part. Errors: InvalidArgument there is none, or
  // some part in PEM is damaged.
  static absl::StatusOr<std::vector<Certificate>> AllFromPem(const std::string& pem);
  // Takes the certificate over.
  explicit Certificate(X509* certificate);

  std::string ToPem() const;
  // SHA-256 of the certificate, in 64 hexadecimal digits.
  std::string Fingerprint() const;
  // A time that is malformed gives InfiniteFuture and InfinitePast: the certificate never counts.
  absl::Time not_before() const;
  absl::Time not_after() const;
  // The one identity of dp's that it holds. Errors: NotFound it holds none; InvalidArgument it
  // holds several or a wrong one.
  absl::StatusOr<Identity> identity() const;
  // The holder of a certificate without such an identity. It is the first URI, else the first mail
  // address, else the first DNS name, else the common name. It comes as a whole, may be empty, and
  // may hold any character.
  std::string subject() const;
  // Whether OpenSSL trusts what its key has signed, if it trusts the certificate.
  bool IsAuthority() const;
  // Whether the key of `authority` has signed it.
  bool IsSignedBy(const Certificate& authority) const;
  // Whether the key pair is the certificate's.
  bool Fits(const KeyPair& key) const;

  X509* get() const { return certificate_.get(); }

 private:
  std::shared_ptr<X509> certificate_;
};

}  // namespace dp::security
