#include "worker/trainer/model/watched_metric.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "worker/trainer/model/evaluation.h"

namespace dp::trainer {
namespace {

constexpr std::pair<WatchedMetric, absl::string_view> kNames[] = {
    {WatchedMetric::kLoss, "loss"},
    {WatchedMetric::kAccuracy, "accuracy"},
    {WatchedMetric::kTop5Accuracy, "top5Accuracy"},
    {WatchedMetric::kMeanAbsoluteError, "meanAbsoluteError"},
    {WatchedMetric::kR2, "r2"},
};

bool ImprovesDownwards(WatchedMetric metric) {
  return metric == WatchedMetric::kLoss || metric == WatchedMetric::kMeanAbsoluteError;
}

std::optional<double> FoundIn(WatchedMetric metric, const Evaluation& evaluation) {
  switch (metric) {
    case WatchedMetric::kLoss:
      return evaluation.loss;
    case WatchedMetric::kAccuracy:
      return evaluation.accuracy;
    case WatchedMetric::kTop5Accuracy:
      return evaluation.measures.top5;
    case WatchedMetric::kMeanAbsoluteError:
      return evaluation.measures.mean_absolute_error;
    case WatchedMetric::kR2:
      return evaluation.measures.r2;
  }
  return std::nullopt;
}

}  // namespace

absl::string_view NameOf(WatchedMetric metric) {
  for (const auto& [each, name] : kNames) {
    if (each == metric) return name;
  }
  return "";
}

std::optional<WatchedMetric> ParseWatchedMetric(absl::string_view name) {
  for (const auto& [metric, its_name] : kNames) {
    if (its_name == name) return metric;
  }
  return std::nullopt;
}

std::optional<double> ValueOf(WatchedMetric metric, const Evaluation& evaluation) {
  const std::optional<double> value = FoundIn(metric, evaluation);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::string InWords(WatchedMetric metric, double value) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.begin(), digits.end(), value);
  return absl::StrCat(
      NameOf(metric), " ",
      absl::string_view(digits.data(), static_cast<size_t>(end.ptr - digits.data())));
}

std::optional<double> ValueInWords(WatchedMetric metric, absl::string_view words) {
  double value = 0;
  const bool ours = absl::ConsumePrefix(&words, absl::StrCat(NameOf(metric), " "));
  return ours && absl::SimpleAtod(words, &value) ? std::optional(value) : std::nullopt;
}

bool Improves(WatchedMetric metric, double value, double best, double delta) {
  return ImprovesDownwards(metric) ? value < best - delta : value > best + delta;
}

}  // namespace dp::trainer
