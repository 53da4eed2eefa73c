#include "worker/library/dist_error.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/engine/collectives/failure.h"

namespace dp::library {
namespace {

using distributed::ErrorKind;

absl::string_view RemedyOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kTimeout:
      return "; check that every rank runs and calls the same operations, or raise the timeout";
    case ErrorKind::kPeerGone:
      return "; the output of that rank says why it ended";
    case ErrorKind::kMismatch:
      return "; call the same operation with the same arguments on every rank";
    default:
      return "";
  }
}

}  // namespace

distributed::DistError DistErrorOf(const absl::Status& status, ErrorSource source,
                                   absl::string_view context) {
  const ErrorKind kind = KindOf(status.code(), source);
  const absl::string_view remedy = source == ErrorSource::kOperation ? RemedyOf(kind) : "";
  std::vector<int> ranks = engine::MissingRanks(status);
  if (ranks.empty()) ranks = engine::GoneRanks(status);
  return {kind,
          absl::StrCat(context, context.empty() ? "" : ": ", std::string(status.message()), remedy),
          std::move(ranks)};
}

absl::Status StatusOfDistError(const distributed::DistError& error) {
  absl::StatusCode code = absl::StatusCode::kInternal;
  for (const absl::StatusCode each :
       {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented,
        absl::StatusCode::kFailedPrecondition, absl::StatusCode::kDeadlineExceeded,
        absl::StatusCode::kUnavailable, absl::StatusCode::kDataLoss, absl::StatusCode::kAborted,
        absl::StatusCode::kResourceExhausted})
    if (KindOf(each, ErrorSource::kOperation) == error.kind()) code = each;
  return engine::WithMissing(absl::Status(code, error.what()), error.missing_ranks());
}

void OrThrow(const absl::Status& status, ErrorSource source, absl::string_view context) {
  if (!status.ok()) throw DistErrorOf(status, source, context);
}

}  // namespace dp::library
