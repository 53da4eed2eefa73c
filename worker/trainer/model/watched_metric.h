#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace dp::trainer {

struct Evaluation;

// The metrics by which evaluations can be compared. Pure.
enum class WatchedMetric { kLoss, kAccuracy, kTop5Accuracy, kMeanAbsoluteError, kR2 };

// The name in a job file, such as "top5Accuracy".
absl::string_view NameOf(WatchedMetric metric);
// Nullopt for a name that this release does not know.
std::optional<WatchedMetric> ParseWatchedMetric(absl::string_view name);

// Nullopt where the evaluation did not take the metric, or found no number.
std::optional<double> ValueOf(WatchedMetric metric, const Evaluation& evaluation);

// A metric and its value as text, such as "accuracy 0.9123", from which the value is read back bit
// by bit. Nullopt for the text of another metric.
std::string InWords(WatchedMetric metric, double value);
std::optional<double> ValueInWords(WatchedMetric metric, absl::string_view words);

// Whether `value` improves on `best` by more than `delta`. Losses and errors improve downwards.
bool Improves(WatchedMetric metric, double value, double best, double delta);

}  // namespace dp::trainer
