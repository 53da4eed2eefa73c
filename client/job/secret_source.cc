#include "client/job/secret_source.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "client/job/input_file.h"
#include "proto/job/secret_check.h"

namespace dp::client {
namespace {

absl::StatusOr<std::string> ReadFile(const std::string& name, const std::string& path, int stop) {
  // One byte too many, and a line break.
  absl::StatusOr<std::string> text = ReadInput(path, kSecretBytesMax + 2, stop);
  if (absl::IsCancelled(text.status()))
    return absl::CancelledError(absl::StrCat("interrupted while reading secret ", name));
  if (!text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "secret ", name, ": the file that is named behind '=' cannot be read: ",
        text.status().message(), "; give NAME=FILE, or NAME for a variable, but never a value"));
  }
  if (!text->empty() && text->back() == '\n') text->pop_back();
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

absl::StatusOr<std::string> ReadSecret(const SecretSource& source, const std::string& dir,
                                       int stop) {
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
    DP_ASSIGN_OR_RETURN(value,
                        ReadFile(source.name, std::filesystem::path(dir) / source.file, stop));
  }
  DP_RETURN_IF_ERROR(CheckSecretValue(source.name, value));
  return value;
}

bool IsReadableByAll(const SecretSource& source, const std::string& dir) {
  if (source.file.empty()) return false;
  std::error_code error;
  const auto status = std::filesystem::status(std::filesystem::path(dir) / source.file, error);
  return status.type() == std::filesystem::file_type::regular &&
         (status.permissions() & std::filesystem::perms::others_read) !=
             std::filesystem::perms::none;
}

}  // namespace dp::client
