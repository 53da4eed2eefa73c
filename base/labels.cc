#include "base/labels.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace dp {
namespace {

bool GoodText(absl::string_view text) {
  return text.size() <= kLabelBytesMax && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.' || c == '/';
         });
}

absl::Status Check(absl::string_view text, const std::string& key, const std::string& value,
                   absl::string_view expected) {
  if (IsLabelKey(key) && GoodText(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("is \"", text, "\"; expected ", expected, ", of at most ", kLabelBytesMax,
                   " letters, digits, '-', '_', '.' and '/' on each side"));
}

// The texts before and after the first `sign`.
Label Split(absl::string_view text, absl::string_view sign) {
  const std::pair<std::string, std::string> sides =
      absl::StrSplit(text, absl::MaxSplits(std::string(sign), 1));
  return {sides.first, sides.second};
}

}  // namespace

std::string TrainerLevelLabel(int level) { return absl::StrCat(kTrainerLevelPrefix, level); }

bool IsLabelKey(absl::string_view text) { return !text.empty() && GoodText(text); }

absl::StatusOr<Label> ParseLabel(absl::string_view text) {
  Label label = Split(text, "=");
  if (!absl::StrContains(text, '=')) label.key.clear();
  DP_RETURN_IF_ERROR(Check(text, label.key, label.value, "KEY=VALUE"));
  return label;
}

absl::StatusOr<LabelConstraint> ParseConstraint(absl::string_view text) {
  using How = LabelConstraint::How;
  LabelConstraint parsed;
  if (absl::StrContains(text, "!=")) {
    const Label sides = Split(text, "!=");
    parsed = {How::kDiffers, sides.key, sides.value};
  } else if (absl::StrContains(text, '=')) {
    const Label sides = Split(text, "=");
    parsed = {How::kEquals, sides.key, sides.value};
  } else if (absl::StartsWith(text, "!")) {
    parsed = {How::kAbsent, std::string(text.substr(1)), ""};
  } else {
    parsed = {How::kPresent, std::string(text), ""};
  }
  DP_RETURN_IF_ERROR(Check(text, parsed.key, parsed.value, "KEY=VALUE, KEY!=VALUE, KEY or !KEY"));
  return parsed;
}

bool Satisfies(const Labels& labels, const LabelConstraint& constraint) {
  const auto it = labels.find(constraint.key);
  const bool present = it != labels.end();
  switch (constraint.how) {
    case LabelConstraint::How::kEquals:
      return present && it->second == constraint.value;
    case LabelConstraint::How::kDiffers:
      return !present || it->second != constraint.value;
    case LabelConstraint::How::kPresent:
      return present;
    case LabelConstraint::How::kAbsent:
      return !present;
  }
  return false;
}

std::string ToString(const LabelConstraint& constraint) {
  switch (constraint.how) {
    case LabelConstraint::How::kEquals:
      return absl::StrCat(constraint.key, "=", constraint.value);
    case LabelConstraint::How::kDiffers:
      return absl::StrCat(constraint.key, "!=", constraint.value);
    case LabelConstraint::How::kPresent:
      return constraint.key;
    case LabelConstraint::How::kAbsent:
      return absl::StrCat("!", constraint.key);
  }
  return "";
}

}  // namespace dp
