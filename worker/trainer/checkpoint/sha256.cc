#include "worker/trainer/checkpoint/sha256.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/check.h"
#include "worker/trainer/checkpoint/durable_file.h"

namespace dp::trainer {
namespace {

// Large enough for a disk to read ahead, small beside the weights of a model.
constexpr size_t kPieceBytes = 1 << 20;

}  // namespace

std::string Sha256Hex(absl::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  // EVP_Digest fails only without memory or without the algorithm.
  DP_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) ==
           1);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

absl::StatusOr<std::string> Sha256HexOfFile(int fd, const std::string& path) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> hash(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  DP_CHECK(hash != nullptr && EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr) == 1);
  std::vector<char> piece(kPieceBytes);
  while (true) {
    const ssize_t got = read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError({errno, std::generic_category()}, "read", path);
    if (got == 0) break;
    DP_CHECK(EVP_DigestUpdate(hash.get(), piece.data(), static_cast<size_t>(got)) == 1);
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  DP_CHECK(EVP_DigestFinal_ex(hash.get(), digest.data(), &size) == 1);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

}  // namespace dp::trainer
