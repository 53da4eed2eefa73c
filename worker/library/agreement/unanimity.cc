#include "worker/library/agreement/unanimity.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/engine/collectives/failure.h"

namespace dp::library {
namespace {

constexpr char kConsents[] = "consents";  // how many there are
constexpr char kAnswer[] = "answer";      // kYes, or the first objection behind kNo
constexpr char kAnswered[] = "answered";  // set behind it, for those who wait
constexpr char kYes[] = "yes";
constexpr char kNo[] = "no: ";

// How long reading the answer may take, which is there.
constexpr absl::Duration kAnswerRead = absl::Seconds(5);

std::string CameKey(int rank) { return absl::StrCat("came/", rank); }

}  // namespace

Unanimity::Unanimity(Store& keys, int rank, std::vector<int> ranks)
    : keys_(keys), rank_(rank), ranks_(std::move(ranks)) {}

absl::Status Unanimity::Object(absl::string_view why) { return Answer(absl::StrCat(kNo, why)); }

// PyTorch's server wakes nobody who waits for a key that compare_set sets.
absl::Status Unanimity::Answer(absl::string_view answer) {
  DP_RETURN_IF_ERROR(keys_.CompareSet(kAnswer, "", answer).status());
  return keys_.Set(kAnswered, "yes");
}

absl::StatusOr<std::string> Unanimity::Consent(absl::string_view call, absl::Duration timeout,
                                               std::optional<absl::Duration> limit) {
  DP_RETURN_IF_ERROR(keys_.Set(CameKey(rank_), "yes"));
  DP_ASSIGN_OR_RETURN(const int64_t consents, keys_.Add(kConsents, 1));
  if (consents == static_cast<int64_t>(ranks_.size())) DP_RETURN_IF_ERROR(Answer(kYes));
  const absl::Status answered = keys_.Get(kAnswered, timeout).status();
  if (absl::IsDeadlineExceeded(answered)) return Late(call, limit.value_or(timeout));
  DP_RETURN_IF_ERROR(answered);
  return GetAnswer(timeout);
}

absl::StatusOr<std::string> Unanimity::Objection() {
  const std::vector<std::string> key = {kAnswered};
  DP_ASSIGN_OR_RETURN(const bool answered, keys_.Check(key));
  if (!answered) return std::string();
  return GetAnswer(kAnswerRead);
}

absl::StatusOr<std::string> Unanimity::GetAnswer(absl::Duration timeout) {
  DP_ASSIGN_OR_RETURN(const std::string answer, keys_.Get(kAnswer, timeout));
  return answer == kYes ? std::string() : answer.substr(sizeof kNo - 1);
}

absl::Status Unanimity::Late(absl::string_view call, absl::Duration limit) {
  std::vector<int> missing;
  for (const int rank : ranks_) {
    const std::vector<std::string> key = {CameKey(rank)};
    DP_ASSIGN_OR_RETURN(const bool came, keys_.Check(key));
    if (!came) missing.push_back(rank);
  }
  std::sort(missing.begin(), missing.end());
  return engine::DidNotArrive(call, missing, limit);
}

}  // namespace dp::library
