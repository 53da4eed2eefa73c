#include "worker/library/agreement/group_agreement.h"

#include <algorithm>
#include <set>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "worker/library/agreement/unanimity.h"

namespace dp::library {
namespace {

constexpr char kFirst[] = "first";  // the group that the first rank asks for

// How long a rank waits for peers to read the difference.
constexpr absl::Duration kDifferenceRead = absl::Seconds(5);

std::string EncodeWanted(const WantedGroup& wanted) {
  return absl::StrCat(wanted.rank, ";", absl::StrJoin(wanted.members, ","), ";", wanted.text);
}

absl::StatusOr<WantedGroup> DecodeWanted(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(';', 2));
  WantedGroup wanted;
  bool valid = parts.size() == 3 && absl::SimpleAtoi(parts[0], &wanted.rank);
  if (valid)
    for (const absl::string_view rank : absl::StrSplit(parts[1], ',', absl::SkipEmpty()))
      valid = absl::SimpleAtoi(rank, &wanted.members.emplace_back()) && valid;
  if (!valid)
    return absl::InternalError(absl::StrCat("'", text, "' in the store is no group of a rank"));
  wanted.text = parts[2];
  return wanted;
}

class GroupAgreement {
 public:
  GroupAgreement(Store& keys, const WantedGroup& wanted, absl::string_view call)
      : keys_(keys), wanted_(wanted), call_(call), members_(keys, wanted.rank, wanted.members) {}

  // If two ranks differ from each other, one of them differs from the first.
  absl::Status Run(absl::Duration timeout) {
    DP_ASSIGN_OR_RETURN(const std::string card,
                        keys_.CompareSet(kFirst, "", EncodeWanted(wanted_)));
    DP_ASSIGN_OR_RETURN(const WantedGroup first, DecodeWanted(card));
    if (first.text != wanted_.text) return Differ(first);
    if (!IsMember()) return keys_.Set(KnowsKey(wanted_.rank), "yes");
    DP_ASSIGN_OR_RETURN(const std::string difference, members_.Consent(call_, timeout));
    return difference.empty() ? absl::OkStatus() : Fail(difference, wanted_.members);
  }

 private:
  // Set once the rank needs the store no more.
  static std::string KnowsKey(int rank) { return absl::StrCat("knows/", rank); }

  bool IsMember() const {
    return std::count(wanted_.members.begin(), wanted_.members.end(), wanted_.rank) > 0;
  }

  absl::Status Differ(const WantedGroup& first) {
    const std::string difference = absl::StrCat("rank ", first.rank, " ", first.text, ", rank ",
                                                wanted_.rank, " ", wanted_.text);
    DP_RETURN_IF_ERROR(members_.Object(difference));
    std::vector<int> concerned = wanted_.members;
    concerned.insert(concerned.end(), first.members.begin(), first.members.end());
    return Fail(difference, concerned);
  }

  // One of the ranks may serve the store, so all stay until the others know.
  absl::Status Fail(const std::string& difference, const std::vector<int>& concerned) {
    std::vector<std::string> known;
    for (const int rank : std::set<int>(concerned.begin(), concerned.end()))
      known.push_back(KnowsKey(rank));
    (void)keys_.Set(KnowsKey(wanted_.rank), "yes");  // a courtesy, and so is the wait
    (void)keys_.Wait(known, kDifferenceRead);
    return absl::InvalidArgumentError(absl::StrCat(call_, ": ", difference));
  }

  Store& keys_;
  const WantedGroup& wanted_;
  const absl::string_view call_;
  Unanimity members_;
};

}  // namespace

absl::Status AgreeOnGroup(Store& keys, const WantedGroup& wanted, absl::string_view call,
                          absl::Duration timeout) {
  return GroupAgreement(keys, wanted, call).Run(timeout);
}

}  // namespace dp::library
