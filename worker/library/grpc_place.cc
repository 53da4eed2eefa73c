#include "worker/library/grpc_place.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/host_port.h"
#include "base/status.h"

namespace dp::library {
namespace {

// How long a coordinator that restarts is awaited.
constexpr absl::Duration kRestartMax = absl::Seconds(30);

// Reads what the options leave out from the environment.
class GrpcPlaceReader {
 public:
  explicit GrpcPlaceReader(const Variables& variables) : variables_(variables) {}

  std::string Text(const std::string& given, absl::string_view name) {
    if (!given.empty()) return given;
    const std::string found = TextOrNone(name);
    if (found.empty()) missing_.push_back(name);
    return found;
  }
  uint64_t Number(const std::optional<uint64_t>& given, absl::string_view name) {
    if (given) return *given;
    const std::string text = Text("", name);
    uint64_t number = 0;
    if (!text.empty() && !absl::SimpleAtoi(text, &number))
      wrong_.push_back(absl::StrCat(name, " is '", text, "', which is ",
                                    WhyNoNumber(text, std::numeric_limits<uint64_t>::max())));
    return number;
  }
  std::string TextOrNone(absl::string_view name) const { return variables_(name).value_or(""); }
  // Whether a variable that is a flag is on, as dpctl reads it.
  bool IsOn(absl::string_view name) const {
    const std::string text = TextOrNone(name);
    return !text.empty() && text != "0" && text != "false";
  }

  absl::Status status() const {
    if (!missing_.empty())
      return absl::InvalidArgumentError(absl::StrCat(
          "GrpcStore misses ", VariableNames(missing_),
          "; start the program by dpctl run, or set coordinator, job and generation in "
          "GrpcStoreOptions"));
    if (wrong_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("GrpcStore: ", absl::StrJoin(wrong_, ", "), "; set a whole number"));
  }

 private:
  const Variables& variables_;
  std::vector<absl::string_view> missing_;
  std::vector<std::string> wrong_;
};

// DP_GENERATION is one of DP_JOB.
absl::Status CheckSameJob(const distributed::GrpcStoreOptions& options, const std::string& own) {
  if (!options.job || options.generation || own.empty() || own == absl::StrCat(*options.job))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("GrpcStore: job is ", *options.job, ", and this rank's is ", own,
                   "; set generation too, because DP_GENERATION is that of job ", own));
}

absl::Status CheckGrpcPlace(const GrpcPlace& place) {
  if (!place.job.valid() || !place.generation.valid())
    return absl::InvalidArgumentError(absl::StrCat(
        "GrpcStore: job is ", place.job.ToString(), " and generation ", place.generation.ToString(),
        "; both count from 1, and 'dpctl ps' and 'dpctl describe' "
        "show them"));
  if (place.patience <= absl::ZeroDuration())
    return absl::InvalidArgumentError("GrpcStore: timeout is 0 or less; give more");
  return ParseHostPort(place.coordinator).status();
}

}  // namespace

absl::StatusOr<GrpcPlace> ReadGrpcPlace(const distributed::GrpcStoreOptions& options,
                                        const Variables& variables) {
  GrpcPlaceReader reader(variables);
  const std::string own_job = reader.TextOrNone("DP_JOB");
  DP_RETURN_IF_ERROR(CheckSameJob(options, own_job));
  GrpcPlace place{.coordinator = reader.Text(options.coordinator, "DP_COORDINATOR"),
                  .job = JobId(reader.Number(options.job, "DP_JOB")),
                  .generation = Generation(reader.Number(options.generation, "DP_GENERATION")),
                  .credentials = options.credentials,
                  .accept_other_users = reader.IsOn("DP_ACCEPT_OTHER_USERS"),
                  .patience = std::min(absl::FromChrono(options.timeout), kRestartMax)};
  DP_RETURN_IF_ERROR(reader.status());
  DP_RETURN_IF_ERROR(CheckGrpcPlace(place));
  if (place.credentials.empty()) {
    place.credentials = reader.TextOrNone("DP_CREDENTIALS");
    // A rank without a credential is one of a coordinator that is called in plain text.
    const bool of_own_coordinator =
        !own_job.empty() && place.coordinator == reader.TextOrNone("DP_COORDINATOR");
    place.in_plain_text =
        reader.IsOn("DP_INSECURE") || (place.credentials.empty() && of_own_coordinator);
  }
  int rank = 0;
  if (own_job == place.job.ToString() && absl::SimpleAtoi(reader.TextOrNone("DP_RANK"), &rank))
    place.rank = rank;
  return place;
}

}  // namespace dp::library
