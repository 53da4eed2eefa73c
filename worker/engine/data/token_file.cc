#include "worker/engine/data/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"
#include "base/status.h"

namespace dp::engine {
namespace {

constexpr uint32_t kHeaderMagic = 20240520;
// llm.c writes 32-bit tokens (Llama 3's) after this one.
constexpr uint32_t kWideHeaderMagic = 20240801;
constexpr size_t kHeaderBytes = 256 * 4;

absl::Status WrongTokens(const std::string& path, const absl::AlphaNum& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, " ", what));
}

absl::Status TokenFileError(int code, const std::string& path) {
  return absl::ErrnoToStatus(code, absl::StrCat("cannot read ", path));
}

absl::StatusOr<std::string> ReadTokenBytes(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat stat;
  if (!file.valid() || fstat(file.get(), &stat) != 0) return TokenFileError(errno, path);
  if (S_ISDIR(stat.st_mode)) return TokenFileError(EISDIR, path);
  std::string bytes(static_cast<size_t>(stat.st_size), '\0');
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t got = read(file.get(), &bytes[at], bytes.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return TokenFileError(errno, path);
    if (got == 0) return WrongTokens(path, "became shorter while it was read");
    at += static_cast<size_t>(got);
  }
  return bytes;
}

uint32_t Word(absl::string_view bytes, size_t index) {
  uint32_t word = 0;
  for (size_t i = 4; i-- > 0;) word = word << 8 | static_cast<uint8_t>(bytes[4 * index + i]);
  return word;
}

// Strips the header, if there is one.
absl::StatusOr<absl::string_view> BodyOf(const std::string& path, absl::string_view bytes) {
  const uint32_t magic = bytes.size() >= 4 ? Word(bytes, 0) : 0;
  if (magic == kWideHeaderMagic) {
    return WrongTokens(path,
                       "has 32-bit tokens (its magic number is 20240801); only 16-bit tokens are "
                       "read, so write it with the GPT-2 tokenizer");
  }
  if (magic != kHeaderMagic) return bytes;
  if (bytes.size() < kHeaderBytes) {
    return WrongTokens(path,
                       absl::StrCat("ends within its header, after ", bytes.size(), " bytes"));
  }
  if (Word(bytes, 1) != 1) {
    return WrongTokens(path,
                       absl::StrCat("has a header of version ", Word(bytes, 1), "; expected 1"));
  }
  const absl::string_view body = bytes.substr(kHeaderBytes);
  if (body.size() == 2 * size_t{Word(bytes, 2)}) return body;
  return WrongTokens(path,
                     absl::StrCat("has ", body.size(), " bytes behind its header, which speaks of ",
                                  Word(bytes, 2), " tokens of 2 bytes"));
}

absl::StatusOr<std::vector<uint16_t>> DecodeTokens(const std::string& path,
                                                   absl::string_view bytes) {
  DP_ASSIGN_OR_RETURN(const absl::string_view body, BodyOf(path, bytes));
  if (body.size() % 2 != 0) {
    return WrongTokens(path, absl::StrCat("has ", body.size(),
                                          " bytes, no whole number of 16-bit "
                                          "tokens"));
  }
  std::vector<uint16_t> tokens(body.size() / 2);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<uint16_t>(static_cast<uint8_t>(body[2 * i]) |
                                      static_cast<uint8_t>(body[2 * i + 1]) << 8);
  }
  return tokens;
}

absl::Status CheckTokens(const std::string& path, const std::vector<uint16_t>& tokens,
                         int vocabulary) {
  const auto bad = std::find_if(tokens.begin(), tokens.end(),
                                [vocabulary](uint16_t token) { return token >= vocabulary; });
  if (bad == tokens.end()) return absl::OkStatus();
  return WrongTokens(
      path, absl::StrCat("has token ", *bad, " at place ", bad - tokens.begin(),
                         "; of a vocabulary of ", vocabulary, " the last is ", vocabulary - 1));
}

}  // namespace

absl::StatusOr<std::vector<uint16_t>> ReadTokenFile(const std::string& path, TokenFormat format,
                                                    int vocabulary,
                                                    const data::BpeTokenizer* encoding) {
  DP_ASSIGN_OR_RETURN(const std::string bytes, ReadTokenBytes(path));
  std::vector<uint16_t> tokens;
  if (format == TokenFormat::kTokens) {
    DP_ASSIGN_OR_RETURN(tokens, DecodeTokens(path, bytes));
  } else if (encoding != nullptr) {
    tokens = encoding->Encode(bytes);
  } else {
    const auto* first = reinterpret_cast<const uint8_t*>(bytes.data());
    tokens.assign(first, first + bytes.size());
  }
  DP_RETURN_IF_ERROR(CheckTokens(path, tokens, vocabulary));
  return tokens;
}

}  // namespace dp::engine
