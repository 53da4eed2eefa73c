#include "server/shell/job_spec_check.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/shell/convert_values.h"

namespace dp::server {
namespace {

constexpr size_t kNameBytesMax = 63;  // as a DNS label, so that it can become part of one
constexpr int kRanksMax = 10'000;     // what placement, worlds and answers are made for
constexpr int kThreadsMax = 1024;
constexpr absl::Duration kGraceMax = absl::Hours(1);
constexpr absl::Duration kDetectWithinMax = absl::Hours(24);
// The spec is journalled, and goes to every worker in each assignment.
constexpr size_t kSpecBytesMax = 1 << 20;

absl::Status Invalid(absl::string_view field, const absl::AlphaNum& value,
                     const absl::AlphaNum& allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value.Piece().empty() ? "\"\"" : value.Piece(), "; ", allowed));
}

absl::Status CheckRange(absl::string_view field, double value, double min, double max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return Invalid(field, value,
                 std::isfinite(max) ? absl::StrCat("it must be from ", min, " to ", max)
                                    : absl::StrCat("it must be a number from ", min, " up"));
}

absl::Status CheckRange(absl::string_view field, absl::Duration value, absl::Duration max) {
  if (value > absl::ZeroDuration() && value <= max) return absl::OkStatus();
  return Invalid(field, absl::FormatDuration(value),
                 absl::StrCat("it must be above 0 and at most ", absl::FormatDuration(max)));
}

bool IsNameCharacter(char c) {
  return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
}

absl::Status CheckName(const std::string& name) {
  const bool good = !name.empty() && name.size() <= kNameBytesMax && name.front() != '-' &&
                    name.back() != '-' && std::all_of(name.begin(), name.end(), IsNameCharacter);
  if (good) return absl::OkStatus();
  return Invalid("name", absl::StrCat("\"", name, "\""),
                 "it must be 1 to 63 characters of a-z, 0-9 and '-', with a letter or digit first "
                 "and last");
}

absl::Status CheckHead(const v1::JobSpec& spec) {
  if (spec.api_version() != "dp/v1") {
    return Invalid("apiVersion", spec.api_version(), "this coordinator knows \"dp/v1\"");
  }
  if (spec.kind() != "Job") return Invalid("kind", spec.kind(), "it must be \"Job\"");
  DP_RETURN_IF_ERROR(CheckName(spec.name()));
  for (const auto& [name, value] : spec.env()) {
    const bool good = !name.empty() && name.find('=') == name.npos && name.find('\0') == name.npos;
    if (!good) return Invalid("env", absl::StrCat("\"", name, "\""), "it is no variable's name");
    if (value.find('\0') != value.npos) {
      return Invalid(absl::StrCat("env.", name), "text with a zero byte", "that ends it early");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTrain(const v1::TrainSpec& train) {
  const double infinity = HUGE_VAL;
  DP_RETURN_IF_ERROR(CheckRange("train.epochs", train.epochs(), 0, infinity));
  DP_RETURN_IF_ERROR(
      CheckRange("train.maxSteps", static_cast<double>(train.max_steps()), 0, infinity));
  DP_RETURN_IF_ERROR(CheckRange("train.globalBatchSize", train.global_batch_size(), 0, infinity));
  DP_RETURN_IF_ERROR(CheckRange("train.bucketCapMb", train.bucket_cap_mb(), 0, 1 << 20));
  DP_RETURN_IF_ERROR(CheckRange("train.evaluateEvery", train.evaluate_every(), 0, infinity));
  if (train.data().dir().empty()) return Invalid("train.data.dir", "", "it must name a directory");
  if (train.model().preset().empty() == train.model().layers().empty()) {
    return Invalid("train.model", train.model().layers().empty() ? "empty" : "given twice",
                   "it must have either preset or layers");
  }
  return absl::OkStatus();
}

// Recorded with the job, so that no later default changes what it does.
v1::JobSpec WithDefaults(v1::JobSpec spec) {
  if (spec.api_version().empty()) spec.set_api_version("dp/v1");
  if (spec.kind().empty()) spec.set_kind("Job");
  if (spec.ranks() == 0) spec.set_ranks(1);
  if (spec.threads_per_rank() == 0) spec.set_threads_per_rank(1);
  if (!spec.has_grace()) *spec.mutable_grace() = ToProto(absl::Seconds(10));
  if (!spec.has_detect_within()) *spec.mutable_detect_within() = ToProto(absl::Seconds(30));
  return spec;
}

}  // namespace

absl::StatusOr<core::JobSpec> CheckJobSpec(const v1::JobSpec& given) {
  const v1::JobSpec spec = WithDefaults(given);
  DP_RETURN_IF_ERROR(CheckHead(spec));
  DP_RETURN_IF_ERROR(CheckRange("ranks", spec.ranks(), 1, kRanksMax));
  DP_RETURN_IF_ERROR(CheckRange("threadsPerRank", spec.threads_per_rank(), 1, kThreadsMax));
  DP_RETURN_IF_ERROR(CheckRange("grace", FromProto(spec.grace()), kGraceMax));
  DP_RETURN_IF_ERROR(CheckRange("detectWithin", FromProto(spec.detect_within()), kDetectWithinMax));
  if (!spec.has_train()) {
    return absl::InvalidArgumentError("the job has no program; give it a section `train`");
  }
  DP_RETURN_IF_ERROR(CheckTrain(spec.train()));
  core::JobSpec checked{spec.name(), spec.ranks(), spec.SerializeAsString()};
  if (checked.payload.size() > kSpecBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("the job takes ", checked.payload.size(),
                                                   " bytes; at most ", kSpecBytesMax,
                                                   " are allowed"));
  }
  return checked;
}

}  // namespace dp::server
