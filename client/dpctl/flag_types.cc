#include "client/dpctl/flag_types.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/limits.h"

namespace dp::ctl {
namespace {

absl::Status NoRanks(absl::string_view part) {
  return absl::InvalidArgumentError(absl::StrCat("--rank: '", part,
                                                 "' is no rank; expected numbers below ", kRanksMax,
                                                 " and ranges, as 0,2-5"));
}

// Empty, or what is wrong.
std::string WrongDuration(const std::string& text) {
  absl::Duration duration;
  double number = 0;
  if (absl::ParseDuration(text, &duration) && duration >= absl::ZeroDuration()) return "";
  if (absl::SimpleAtod(text, &number) && number >= 0)
    return absl::StrCat("'", text, "' has no unit; write ", text, "s, or with ms, m or h");
  return absl::StrCat("'", text, "' is no duration; expected one such as 10s or 1h30m");
}

}  // namespace

CLI::Option* AddDuration(CLI::App& app, const std::string& flag, absl::Duration& value,
                         const std::string& help) {
  const auto set = [&value](const std::string& text) {
    (void)absl::ParseDuration(text, &value);  // checked before
  };
  return app.add_option_function<std::string>(flag, set, help)
      ->check(WrongDuration)
      ->type_name("DURATION");
}

absl::StatusOr<std::vector<int>> ParseRanks(absl::string_view text) {
  std::vector<int> ranks;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(part, absl::MaxSplits('-', 1));
    int first = 0, last = 0;
    if (!absl::SimpleAtoi(ends.front(), &first) || !absl::SimpleAtoi(ends.back(), &last))
      return NoRanks(part);
    if (first < 0 || last < first || last >= kRanksMax) return NoRanks(part);
    for (int rank = first; rank <= last; ++rank) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace dp::ctl
