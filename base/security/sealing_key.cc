#include "base/security/sealing_key.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/security/openssl.h"

namespace dp::security {
namespace {

// A sealed value is FORM, the id of its key, the nonce, the encrypted bytes and their tag.
constexpr char kSealForm = 1;
constexpr size_t kKeyIdBytes = 8;
constexpr size_t kNonceBytes = 12;
constexpr size_t kTagBytes = 16;
constexpr size_t kHeadBytes = 1 + kKeyIdBytes + kNonceBytes;

const unsigned char* Bytes(absl::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* Bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

// Begins the encryption or decryption of a value for `place` behind this head.
CipherPtr Begin(const std::array<unsigned char, SealingKey::kBytes>& key, absl::string_view head,
                absl::string_view place, bool seal) {
  CipherPtr cipher(EVP_CIPHER_CTX_new());
  const absl::string_view nonce = head.substr(head.size() - kNonceBytes);
  DP_CHECK(cipher != nullptr);
  DP_CHECK(EVP_CipherInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, key.data(), Bytes(nonce),
                             seal ? 1 : 0) == 1);
  const std::string known = absl::StrCat(head, place);
  int size = 0;
  DP_CHECK(EVP_CipherUpdate(cipher.get(), nullptr, &size, Bytes(known),
                            static_cast<int>(known.size())) == 1);
  return cipher;
}

absl::Status Changed() { return absl::DataLossError("the sealed value was changed, cut or moved"); }

}  // namespace

SealingKey SealingKey::Make() {
  SealingKey key;
  DP_CHECK(RAND_bytes(key.bytes_.data(), kBytes) == 1);
  return key;
}

absl::StatusOr<SealingKey> SealingKey::From(absl::string_view bytes) {
  if (bytes.size() != kBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a key of secrets has ", kBytes, " bytes, not ", bytes.size()));
  }
  if (bytes == std::string(kBytes, '\0')) {
    return absl::InvalidArgumentError(
        "a key of secrets cannot be all zeros; the file may have been restored with holes");
  }
  SealingKey key;
  std::copy(bytes.begin(), bytes.end(), key.bytes_.begin());
  return key;
}

std::string SealingKey::id() const {
  static constexpr absl::string_view kPurpose = "dp: the id of a key of secrets";
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  DP_CHECK(HMAC(EVP_sha256(), bytes_.data(), kBytes, Bytes(kPurpose), kPurpose.size(), mac,
                &size) != nullptr);
  return {reinterpret_cast<const char*>(mac), kKeyIdBytes};
}

std::string SealingKey::Seal(absl::string_view value, absl::string_view place) const {
  std::string nonce(kNonceBytes, '\0');
  DP_CHECK(RAND_bytes(Bytes(nonce), kNonceBytes) == 1);
  const std::string head = absl::StrCat(std::string(1, kSealForm), id(), nonce);
  const CipherPtr cipher = Begin(bytes_, head, place, /*seal=*/true);
  std::string hidden(value.size(), '\0');
  int size = 0;
  DP_CHECK(EVP_CipherUpdate(cipher.get(), Bytes(hidden), &size, Bytes(value),
                            static_cast<int>(value.size())) == 1);
  DP_CHECK(EVP_CipherFinal_ex(cipher.get(), nullptr, &size) == 1);  // no bytes are left
  std::string tag(kTagBytes, '\0');
  DP_CHECK(EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, tag.data()) == 1);
  return absl::StrCat(head, hidden, tag);
}

absl::StatusOr<std::string> SealingKey::Open(absl::string_view sealed,
                                             absl::string_view place) const {
  if (sealed.size() < kHeadBytes + kTagBytes || sealed.front() != kSealForm) return Changed();
  if (sealed.substr(1, kKeyIdBytes) != id()) {
    return absl::FailedPreconditionError("another key has sealed the value");
  }
  const absl::string_view head = sealed.substr(0, kHeadBytes);
  const absl::string_view hidden =
      sealed.substr(kHeadBytes, sealed.size() - kHeadBytes - kTagBytes);
  std::string tag(sealed.substr(sealed.size() - kTagBytes));
  const CipherPtr cipher = Begin(bytes_, head, place, /*seal=*/false);
  DP_CHECK(EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()) == 1);
  std::string value(hidden.size(), '\0');
  int size = 0;
  DP_CHECK(EVP_CipherUpdate(cipher.get(), Bytes(value), &size, Bytes(hidden),
                            static_cast<int>(hidden.size())) == 1);
  if (EVP_CipherFinal_ex(cipher.get(), nullptr, &size) != 1) return Changed();
  return value;
}

}  // namespace dp::security
