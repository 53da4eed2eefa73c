#include "worker/library/agreement/backend_agreement.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "worker/library/agreement/unanimity.h"

namespace dp::library {
namespace {

constexpr char kFirstBackend[] = "backend";  // "RANK BACKEND"
constexpr absl::string_view kBackendsDiffer = "backends differ: ";

}  // namespace

absl::Status AgreeOnBackend(Store& keys, Store& objections, int rank, absl::string_view backend) {
  DP_ASSIGN_OR_RETURN(const std::string card,
                      keys.CompareSet(kFirstBackend, "", absl::StrCat(rank, " ", backend)));
  const std::pair<std::string, std::string> first = absl::StrSplit(card, absl::MaxSplits(' ', 1));
  if (first.second == backend) return absl::OkStatus();
  const std::string difference = absl::StrCat(kBackendsDiffer, "rank ", first.first, " gives ",
                                              first.second, ", rank ", rank, " gives ", backend);
  DP_RETURN_IF_ERROR(Unanimity(objections, rank, {}).Object(difference));
  return BackendsDiffer(difference);
}

absl::Status BackendsDiffer(absl::string_view objection) {
  if (!absl::StartsWith(objection, kBackendsDiffer)) return absl::OkStatus();
  return absl::InvalidArgumentError(objection);
}

}  // namespace dp::library
