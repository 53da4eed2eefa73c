#include "proto/job/evaluation_check.h"

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "proto/job/data_check.h"

namespace dp {
namespace {

constexpr char kConfusionPath[] = "train.metrics.confusionMatrix";
constexpr char kTop5[] = "top5Accuracy";
constexpr int kTop5ValuesMin = 6;

bool ComparesWithLabels(const v1::TrainSpec& train) {
  return train.loss().has_cross_entropy() || (!train.has_loss() && !HasTargets(train.data()));
}

// The metrics that evaluations of such a training take.
std::vector<std::string> MetricsOf(const v1::TrainSpec& train) {
  if (train.loss().has_norm()) return {"loss"};
  if (!ComparesWithLabels(train)) return {"loss", "meanAbsoluteError", "r2"};
  if (IsText(train.data())) return {"loss", "accuracy"};
  return {"loss", "accuracy", kTop5};
}

class EvaluationCheck : private FieldCheck {
 public:
  explicit EvaluationCheck(const FieldOrigins& origins) : FieldCheck(origins) {}

  absl::Status Run(const v1::TrainSpec& train) {
    if (train.metrics().confusion_matrix() && !ComparesWithLabels(train))
      Fail(kConfusionPath,
           absl::StrCat(kConfusionPath, " counts labels, and the loss takes none; leave it out"));
    if (train.has_early_stop()) {
      Watched("train.earlyStop", train.early_stop().metric(), train);
      AtLeast("train.earlyStop.patience", train.early_stop().patience(), 1);
      AtLeast("train.earlyStop.minDelta", train.early_stop().min_delta(), 0);
    }
    const v1::CheckpointSpec& checkpoint = train.checkpoint();
    if (checkpoint.has_best()) Watched("train.checkpoint.best", checkpoint.best().metric(), train);
    if (train.output().best()) CheckBestOutput(train);
    return first();
  }

  absl::Status Run(const v1::TrainSpec& train, const model::CheckedLayer& last) {
    if (train.metrics().confusion_matrix()) Because(kConfusionPath, CheckConfusionMatrix(last));
    const std::string path = "train.earlyStop.metric";
    Because(path, CheckWatched(path, train.early_stop().metric(), last));
    const std::string best = "train.checkpoint.best.metric";
    Because(best, CheckWatched(best, train.checkpoint().best().metric(), last));
    return first();
  }

 private:
  void CheckBestOutput(const v1::TrainSpec& train) {
    const std::string path = "train.output.best";
    if (!train.checkpoint().has_best())
      Fail(path, absl::StrCat(path,
                              " takes the weights of the best checkpoint, and "
                              "train.checkpoint.best is missing; give it, as best: {}"));
    if (train.output().weights().empty())
      Fail(path, absl::StrCat(path,
                              " is true, and train.output.weights is missing, the file of "
                              "the weights; give it, or leave best out"));
  }
  void Because(const std::string& path, const absl::Status& error) {
    if (!error.ok()) Fail(path, error.message());
  }
  void Watched(const std::string& path, const std::string& metric, const v1::TrainSpec& train) {
    OneOf(path + ".metric", metric, MetricsOf(train));
    if (train.evaluate_every() == 0)
      Fail(path, absl::StrCat(path,
                              " needs evaluations, and train.evaluateEvery is 0; set it to 1 "
                              "or more"));
  }
};

}  // namespace

absl::Status CheckEvaluations(const v1::TrainSpec& train, const FieldOrigins& origins) {
  return EvaluationCheck(origins).Run(train);
}

absl::Status CheckMeasures(const v1::TrainSpec& train, const model::CheckedLayer& last,
                           const FieldOrigins& origins) {
  return EvaluationCheck(origins).Run(train, last);
}

absl::Status CheckConfusionMatrix(const model::CheckedLayer& last) {
  if (last.out.back() <= kConfusionClassesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      kConfusionPath, " is for at most ", kConfusionClassesMax, " values, and the last layer '",
      last.name, "' gives ", last.out.back(), "; leave it out"));
}

absl::Status CheckWatched(const std::string& path, absl::string_view metric,
                          const model::CheckedLayer& last) {
  if (metric != kTop5 || last.out.back() >= kTop5ValuesMin) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, " is \"", kTop5, "\", which needs ", kTop5ValuesMin, " values, and the last layer '",
      last.name, "' gives ", last.out.back(), "; take accuracy"));
}

}  // namespace dp
