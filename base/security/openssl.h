#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

// Owners of OpenSSL's objects, and its errors as status.

namespace dp::security {

template <auto kFree>
struct Free {
  template <typename Object>
  void operator()(Object* object) const {
    kFree(object);
  }
};

using CipherPtr = std::unique_ptr<EVP_CIPHER_CTX, Free<EVP_CIPHER_CTX_free>>;
using BioPtr = std::unique_ptr<BIO, Free<BIO_free_all>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>>;
using KeyContextPtr = std::unique_ptr<EVP_PKEY_CTX, Free<EVP_PKEY_CTX_free>>;
using NamesPtr = std::unique_ptr<GENERAL_NAMES, Free<GENERAL_NAMES_free>>;
using PublicKeyPtr = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using RequestPtr = std::unique_ptr<X509_REQ, Free<X509_REQ_free>>;

// A reader of the text, which must outlive it.
inline BioPtr Reading(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

inline BioPtr Writing() { return BioPtr(BIO_new(BIO_s_mem())); }

inline std::string Written(const BioPtr& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);  // NOLINT: OpenSSL's type
  return std::string(data, static_cast<size_t>(size));
}

// For OpenSSL's readers of PEM. Without it they would ask for the password of an encrypted text on
// the terminal, or read it from standard input.
inline int NoPassword(char*, int, int, void*) { return -1; }

// "<what>: <the reason that OpenSSL gives>". Empties OpenSSL's list of errors.
inline absl::Status InvalidBecause(absl::string_view what) {
  char reason[256] = "malformed";
  if (const unsigned long code = ERR_peek_error(); code != 0) {  // NOLINT: OpenSSL's type
    ERR_error_string_n(code, reason, sizeof(reason));
  }
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat(what, ": ", reason));
}

}  // namespace dp::security
