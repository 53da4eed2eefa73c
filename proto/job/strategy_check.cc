#include "proto/job/strategy_check.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

namespace dp {
namespace {

class StrategyCheck : private FieldCheck {
 public:
  explicit StrategyCheck(const FieldOrigins& origins) : FieldCheck(origins) {}

  absl::Status Run(const v1::TrainSpec& train) {
    if (train.has_strategy()) {
      switch (train.strategy().kind_case()) {
        case v1::StrategySpec::kDdp:
          break;
        case v1::StrategySpec::kLocalSgd:
          CheckLocalSgd(train);
          break;
        case v1::StrategySpec::KIND_NOT_SET:
          Fail("train.strategy", "train.strategy is empty; give ddp or localSgd, or leave it out");
      }
    }
    return first();
  }

 private:
  // Ranks exchange these within a step.
  void MeetsInSteps(const v1::TrainSpec& train, const std::string& strategy) {
    const v1::CrossEntropyLossSpec& loss = train.loss().cross_entropy();
    if (loss.has_ignore_index() || !loss.class_weights().empty())
      Fail("train.loss.crossEntropy",
           absl::StrCat("train.loss.crossEntropy has ignoreIndex or classWeights, for which ranks "
                        "meet in every step, and with train.strategy ",
                        strategy, " they do not; leave one of them out"));
    for (int i = 0; i < train.model().layers_size(); ++i) {
      const std::string path = absl::StrCat("train.model.layers[", i, "].batchNorm.sync");
      if (train.model().layers(i).batch_norm().sync())
        Fail(path, absl::StrCat(path, " is true, and with train.strategy ", strategy,
                                " each rank normalizes by itself; leave one of them out"));
    }
  }

  void CheckLocalSgd(const v1::TrainSpec& train) {
    const std::string path = "train.strategy.localSgd.";
    const v1::LocalSgdStrategySpec& local = train.strategy().local_sgd();
    Between(path + "syncEvery", local.sync_every(), 1, std::numeric_limits<int>::max());
    Above(path + "outerLearningRate", local.outer_learning_rate(), 0);
    const double momentum = local.outer_momentum();
    if (!(momentum >= 0 && momentum < 1))
      Fail(path + "outerMomentum",
           Wrong(path + "outerMomentum", momentum, "at least 0 and below 1"));
    if (train.has_ema())
      Fail("train.ema",
           "train.ema follows every step of weights that are alike on all ranks, and with "
           "train.strategy localSgd they differ within a round; leave one of them out");
    MeetsInSteps(train, "localSgd");
  }
};

}  // namespace

absl::Status CheckStrategy(const v1::TrainSpec& train, const FieldOrigins& origins) {
  return StrategyCheck(origins).Run(train);
}

}  // namespace dp
