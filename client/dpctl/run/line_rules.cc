#include "client/dpctl/run/line_rules.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "client/dpctl/flag_types.h"
#include "proto/job/job_spec.h"

namespace dp::ctl {
namespace {

constexpr int kOut = 1;
constexpr int kErr = 2;

bool ParseMask(absl::string_view text, int* mask) {
  return absl::SimpleAtoi(text, mask) && *mask >= 0 && *mask <= (kOut | kErr);
}

// 0 if the placement decides.
int RanksPerNode(const v1::JobSpec& spec) {
  int each = 0;
  const bool known = absl::SimpleAtoi(RanksPerNodeField(spec), &each) && each > 0;
  return known ? each : 0;
}

absl::StatusOr<RankStreams> ParseStreams(const TorchrunFlags& flags, const std::string& name) {
  return RankStreams::Parse(flags.Origin(name), flags.Value(name));
}

}  // namespace

absl::StatusOr<RankStreams> RankStreams::Parse(const std::string& flag, absl::string_view text) {
  RankStreams streams;
  if (text.empty() || ParseMask(text, &streams.of_all_)) return streams;
  streams.of_all_ = 0;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(part, absl::MaxSplits(':', 1));
    int rank = 0, mask = 0;
    if (!absl::SimpleAtoi(halves.first, &rank) || rank < 0 || !ParseMask(halves.second, &mask))
      return absl::InvalidArgumentError(absl::StrCat(
          flag, " is \"", text, "\"; expected 0 to 3 for all ranks, or for some, as 0:1,1:3"));
    streams.of_rank_[rank] = mask;
  }
  return streams;
}

std::set<int> RankStreams::ranks() const {
  std::set<int> ranks;
  for (const auto& [rank, mask] : of_rank_) ranks.insert(rank);
  return ranks;
}

bool RankStreams::Has(int local_rank, v1::LogStream stream) const {
  const auto own = of_rank_.find(local_rank);
  const int mask = own == of_rank_.end() ? of_all_ : own->second;
  return (mask & (stream == v1::LOG_STREAM_STDERR ? kErr : kOut)) != 0;
}

bool LineRules::Shows(const LogLine& line, int local_rank) const {
  if (!ranks_shown.empty() && !ranks_shown.contains(local_rank)) return false;
  return !redirects.Has(local_rank, line.stream) || tee.Has(local_rank, line.stream);
}

bool LineRules::Files(const LogLine& line, int local_rank) const {
  return redirects.Has(local_rank, line.stream) || tee.Has(local_rank, line.stream);
}

std::string LineRules::Prefix(const LogLine& line, int local_rank, const std::string& host) const {
  return absl::StrReplaceAll(prefix, {{"${role_name}", role},
                                      {"${local_rank}", absl::StrCat(local_rank)},
                                      {"${rank}", absl::StrCat(line.rank)},
                                      {"${hostname}", host}});
}

absl::StatusOr<LineRules> LineRulesOf(const TorchrunFlags& flags, const v1::JobSpec& spec) {
  LineRules rules;
  DP_ASSIGN_OR_RETURN(rules.redirects, ParseStreams(flags, "redirects"));
  DP_ASSIGN_OR_RETURN(rules.tee, ParseStreams(flags, "tee"));
  const std::string shown = flags.Value("local-ranks-filter");
  if (!shown.empty()) {
    const absl::StatusOr<std::vector<int>> ranks = ParseRanks(shown);
    if (!ranks.ok())
      return absl::InvalidArgumentError(absl::StrCat(flags.Origin("local-ranks-filter"), " is \"",
                                                     shown, "\"; expected local ranks, as 0,1"));
    rules.ranks_shown = {ranks->begin(), ranks->end()};
  }
  rules.prefix = flags.Value("log-line-prefix-template");
  rules.log_dir = flags.Value("log-dir");
  if (const auto role = spec.env().find("ROLE_NAME"); role != spec.env().end())
    rules.role = role->second;
  rules.ranks_per_node = RanksPerNode(spec);
  return rules;
}

std::vector<std::string> NoSuchLocalRanks(const LineRules& rules, const TorchrunFlags& flags,
                                          const v1::JobSpec& spec) {
  // A placement may put all ranks on one worker.
  const int there = rules.ranks_per_node > 0 ? rules.ranks_per_node : spec.ranks();
  std::vector<std::string> lines;
  for (const auto& [flag, named] :
       {std::pair("redirects", rules.redirects.ranks()), std::pair("tee", rules.tee.ranks()),
        std::pair("local-ranks-filter", rules.ranks_shown)}) {
    const std::set<int> missing(named.lower_bound(there), named.end());
    if (missing.empty()) continue;
    lines.push_back(absl::StrCat(flags.Origin(flag), " is \"", flags.Value(flag),
                                 "\", but no worker has local rank ", absl::StrJoin(missing, ", "),
                                 "; local ranks are ",
                                 there == 1 ? "0 alone" : absl::StrCat("0 to ", there - 1)));
  }
  return lines;
}

}  // namespace dp::ctl
