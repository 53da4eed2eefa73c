#include "worker/trainer/model/parameter_groups.h"

#include <fnmatch.h>

#include <algorithm>
#include <numeric>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status.h"

namespace dp::trainer {
namespace {

constexpr size_t kNamesShown = 5;

bool Matches(const ParameterGroup& group, const engine::Parameter& parameter) {
  return fnmatch(group.match.c_str(), parameter.name.c_str(), FNM_NOESCAPE) == 0;
}

// Levenshtein's distance.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row.back();
}

std::string NamesNear(const std::string& pattern, const engine::ParameterLayout& layout) {
  std::vector<std::string> names;
  for (const engine::Parameter& parameter : layout.parameters) names.push_back(parameter.name);
  std::reverse(names.begin(), names.end());  // the first layer first, as people write them
  absl::c_stable_sort(names, [&](const std::string& a, const std::string& b) {
    return Distance(pattern, a) < Distance(pattern, b);
  });
  const bool more = names.size() > kNamesShown;
  if (more) names.resize(kNamesShown);
  return absl::StrCat(absl::StrJoin(names, ", "), more ? " and more" : "");
}

// The group `index` got no parameter.
absl::Status NoneMatches(const std::vector<ParameterGroup>& groups, size_t index,
                         const engine::ParameterLayout& layout) {
  const ParameterGroup& group = groups[index];
  const std::string what = absl::StrCat("train.groups[", index, "].match '", group.match, "' ");
  const bool statistic = absl::c_any_of(layout.parameters, [&](const engine::Parameter& parameter) {
    return parameter.is_statistic() && Matches(group, parameter);
  });
  if (statistic)
    return absl::InvalidArgumentError(absl::StrCat(
        what, "matches only running statistics, which no optimizer changes; leave it out"));
  const bool shadowed = absl::c_any_of(layout.parameters, [&](const engine::Parameter& parameter) {
    return Matches(group, parameter);
  });
  if (shadowed)
    return absl::InvalidArgumentError(absl::StrCat(
        what, "matches only weights of groups before it; put it first, or leave it out"));
  return absl::InvalidArgumentError(absl::StrCat(what, "matches no weight of the model, which has ",
                                                 NamesNear(group.match, layout)));
}

}  // namespace

ParameterGroup GroupOf(const v1::ParameterGroupSpec& spec) {
  ParameterGroup group = {.match = spec.match(), .options = {.frozen = spec.frozen()}};
  if (spec.has_learning_rate_factor())
    group.options.learning_rate_factor = spec.learning_rate_factor();
  if (spec.has_weight_decay()) group.options.weight_decay = spec.weight_decay();
  return group;
}

absl::Status ApplyGroups(const std::vector<ParameterGroup>& groups,
                         engine::ParameterLayout& layout) {
  std::vector<bool> taken(groups.size());
  for (engine::Parameter& parameter : layout.parameters) {
    if (parameter.is_statistic()) continue;
    const auto group = absl::c_find_if(
        groups, [&](const ParameterGroup& each) { return Matches(each, parameter); });
    if (group == groups.end()) continue;
    parameter.options = group->options;
    taken[group - groups.begin()] = true;
  }
  const auto none = absl::c_find(taken, false);
  if (none != taken.end()) return NoneMatches(groups, none - taken.begin(), layout);
  const auto frozen = [](const engine::Parameter& each) { return each.options.frozen; };
  if (layout.parameters.empty() || !absl::c_all_of(layout.parameters, frozen))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      "train.groups freezes every weight, so nothing is left to train; unfreeze some");
}

}  // namespace dp::trainer
