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

bool ParseDuration(const std::string& text, absl::Duration& value) {
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    value = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, &value)) {
    return false;
  }
  return value >= absl::ZeroDuration();
}

}  // namespace

CLI::Option* AddDuration(CLI::App& app, const std::string& flag, absl::Duration& value,
                         const std::string& help) {
  const auto set = [&value](const std::string& text) {
    (void)ParseDuration(text, value);  // checked before
  };
  const auto check = [](const std::string& text) -> std::string {
    absl::Duration duration;
    if (ParseDuration(text, duration)) return "";
    return absl::StrCat("'", text, "' is no duration; expected one such as 10s or 1h30m");
  };
  return app.add_option_function<std::string>(flag, set, help)->check(check)->type_name("DURATION");
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
