#include "client/job/secret_source.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "proto/job/secret_check.h"

namespace dp::client {
namespace {

absl::StatusOr<std::string> ReadFile(const std::string& name, const std::filesystem::path& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(kSecretBytesMax + 2, '\0');  // one byte too many, and a line break
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file && !file.eof()) {
    return absl::InvalidArgumentError(
        absl::StrCat("secret ", name, ": the file that is named behind '=' cannot be read: ",
                     errno == 0 ? "reason unknown" : std::strerror(errno),
                     "; give NAME=FILE, or NAME for a variable, but never a value"));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

absl::StatusOr<SecretSource> ParseSecretSource(absl::string_view text) {
  const size_t equals = text.find('=');
  if (equals == text.npos) return SecretSource{std::string(text)};
  SecretSource source{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
  if (!source.file.empty()) return source;
  return absl::InvalidArgumentError(
      absl::StrCat("secret ", source.name, " names no file behind '='; give NAME=FILE or NAME"));
}

absl::StatusOr<std::string> ReadSecret(const SecretSource& source, const std::string& dir) {
  std::string value;
  if (source.file.empty()) {
    const char* variable = std::getenv(source.name.c_str());
    if (variable == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("secret ", source.name,
                       ": there is no variable of this name here; export "
                       "it, or name a file, as ",
                       source.name, "=FILE"));
    }
    value = variable;
  } else {
    DP_ASSIGN_OR_RETURN(value, ReadFile(source.name, std::filesystem::path(dir) / source.file));
  }
  DP_RETURN_IF_ERROR(CheckSecretValue(source.name, value));
  return value;
}

}  // namespace dp::client
