#include "proto/job/secret_check.h"

#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"

namespace dp {
namespace {

// A name of a foreign request may be anything.
constexpr size_t kNameShownBytesMax = 80;

template <typename... Words>
absl::Status Wrong(const std::string& name, const Words&... words) {
  return absl::InvalidArgumentError(
      absl::StrCat("secret ", absl::CEscape(name.substr(0, kNameShownBytesMax)), words...));
}

}  // namespace

absl::Status CheckSecretValue(const std::string& name, const std::string& value) {
  if (value.empty()) return Wrong(name, " is empty; give it a value, or leave it out");
  if (value.size() < kSecretValueBytesMin) {
    return Wrong(name, " has ", value.size(), " bytes; dp hides values in output, and that works ",
                 "from ", kSecretValueBytesMin, " bytes on, so use env for a value this short");
  }
  if (value.find('\0') != std::string::npos) {
    return Wrong(name, " has a zero byte; a variable cannot, so encode it, as by base64");
  }
  if (value.size() <= kSecretBytesMax) return absl::OkStatus();
  // dpctl reads no more of a file than shows that it is too long.
  return Wrong(name, " has more than ", kSecretBytesMax,
               " bytes, which all secrets of a job may have together; put it into a file that the "
               "ranks read");
}

absl::Status CheckSecrets(const v1::JobSpec& spec,
                          const google::protobuf::RepeatedPtrField<v1::Secret>& secrets) {
  std::set<std::string> missing(spec.secrets().begin(), spec.secrets().end());
  size_t bytes = 0;
  for (const v1::Secret& secret : secrets) {
    if (missing.erase(secret.name()) == 0) {
      return Wrong(secret.name(),
                   " has a value, but the job's secrets do not name it once; name "
                   "it in secrets");
    }
    DP_RETURN_IF_ERROR(CheckSecretValue(secret.name(), secret.value()));
    bytes += secret.name().size() + secret.value().size();
  }
  if (!missing.empty()) {
    return Wrong(*missing.begin(),
                 " has no value; dpctl of this release sends it, by --secret or the job file");
  }
  if (bytes <= kSecretBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the job's secrets have ", bytes, " bytes with their names; they may have ",
                   kSecretBytesMax, ", so put large ones into a file that the ranks read"));
}

}  // namespace dp
