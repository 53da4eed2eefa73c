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

// Empty, or the error.
std::string WrongDuration(const std::string& text) {
  absl::Duration duration;
  double number = 0;
  if (absl::ParseDuration(text, &duration) && duration >= absl::ZeroDuration() &&
      duration < absl::InfiniteDuration()) {
    return "";
  }
  if (absl::SimpleAtod(text, &number) && number >= 0)
    return absl::StrCat("'", text, "' has no unit; write ", text, "s, or with ms, m or h");
  return absl::StrCat(
      "'", text, "' is no duration; expected one such as 10s or 1h30m; hours are the largest unit");
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

CLI::Option* AddNumber(CLI::App& app, const std::string& flag, uint64_t& value,
                       const std::string& help) {
  const auto set = [&value](const std::string& text) {
    (void)absl::SimpleAtoi(text, &value);  // checked before
  };
  const auto wrong = [](const std::string& text) -> std::string {
    uint64_t number = 0;
    if (absl::SimpleAtoi(text, &number)) return "";
    return absl::StrCat("'", text, "' is no number; expected one from 0 on");
  };
  return app.add_option_function<std::string>(flag, set, help)->check(wrong)->type_name("NUMBER");
}

CLI::Option* AddPriority(CLI::App& app, const std::string& flag, std::optional<int>& value) {
  const std::string range = absl::StrCat("from ", -kPriorityMax, " to ", kPriorityMax);
  const auto set = [&value](const std::string& text) {
    (void)absl::SimpleAtoi(text, &value.emplace());  // checked before
  };
  const auto wrong = [range](const std::string& text) -> std::string {
    int number = 0;
    const bool good =
        absl::SimpleAtoi(text, &number) && number >= -kPriorityMax && number <= kPriorityMax;
    return good ? "" : absl::StrCat("'", text, "' is no priority; expected a whole number ", range);
  };
  return app
      .add_option_function<std::string>(flag, set,
                                        absl::StrCat("A number ", range, "; higher goes first"))
      ->check(wrong)
      ->type_name("PRIORITY");
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
    if (ranks.size() > static_cast<size_t>(kRanksMax))
      return absl::InvalidArgumentError(absl::StrCat("--rank: names more than ", kRanksMax,
                                                     " ranks; name each once, as in 0,2-5"));
  }
  return ranks;
}

std::string WhyEmpty(const std::string& value) {
  return value.empty() ? "it is empty; give a value, or leave it out" : "";
}

absl::StatusOr<absl::Time> ReadSince(const std::string& text, absl::Time now) {
  absl::Duration ago;
  if (absl::ParseDuration(text, &ago) && ago >= absl::ZeroDuration()) return now - ago;
  absl::Time time;
  std::string error;
  if (absl::ParseTime(absl::RFC3339_full, text, &time, &error)) return time;
  return absl::InvalidArgumentError(
      absl::StrCat("'", text,
                   "' is neither a duration, such as 5m or 1h30m, nor a time as RFC 3339 writes "
                   "it, such as 2026-11-21T19:10:00Z"));
}

CLI::Option* AddSince(CLI::App& app, const std::string& flag, std::string& value,
                      const std::string& help) {
  const auto wrong = [](const std::string& text) {
    return std::string(ReadSince(text, absl::UnixEpoch()).status().message());
  };
  return app.add_option(flag, value, help)->check(wrong)->type_name("DURATION|TIME");
}

}  // namespace dp::ctl
