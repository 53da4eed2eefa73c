#include "proto/job/ps_check.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

namespace dp {
namespace {

// More steps than any rank is ahead of another.
constexpr int kStalenessMax = 1'000'000;

class PsCheck : private FieldCheck {
 public:
  explicit PsCheck(const FieldOrigins& origins) : FieldCheck(origins) {}

  absl::Status Run(const v1::TrainSpec& train) {
    const v1::PsStrategySpec& ps = train.strategy().ps();
    OneOf("train.strategy.ps.mode", ps.mode(), {"sync", "async", "bounded"});
    const std::string staleness = "train.strategy.ps.maxStaleness";
    Between(staleness, ps.max_staleness(), 0, kStalenessMax);
    if (ps.has_max_staleness() && ps.mode() != "bounded")
      Fail(staleness, absl::StrCat(staleness, " is for mode: bounded, and the mode is \"",
                                   ps.mode(), "\"; leave it out"));
    Between("train.strategy.ps.publishEvery", ps.publish_every(), 1,
            std::numeric_limits<int>::max());
    if (train.has_checkpoint()) Excludes("train.checkpoint", "the coordinator publishes the state");
    if (train.has_resume()) Excludes("train.resume", "the job goes on from the published state");
    if (train.has_ema()) Excludes("train.ema", "the coordinator keeps no average of the weights");
    if (!train.trace().empty()) Excludes("train.trace", "there are no buckets to trace");
    if (train.has_early_stop())
      Excludes("train.earlyStop", "it is not part of the published state");
    if (ps.mode() != "sync") CheckRanksDoNotMeet(train);
    return first();
  }

 private:
  // Ranks that take steps by themselves cannot compute anything together within a step.
  void CheckRanksDoNotMeet(const v1::TrainSpec& train) {
    const std::string why = "its ranks take their steps by themselves, and this is over all ranks";
    const v1::CrossEntropyLossSpec& loss = train.loss().cross_entropy();
    if (loss.has_ignore_index() || !loss.class_weights().empty())
      Excludes("train.loss.crossEntropy", why);
    for (const v1::LayerSpec& layer : train.model().layers())
      if (layer.batch_norm().sync()) Excludes("train.model.layers", why + ": batchNorm.sync");
  }

  void Excludes(const std::string& field, const std::string& why) {
    Fail(field, absl::StrCat(field, " does not go with this train.strategy.ps: ", why,
                             "; leave it out, or use ddp"));
  }
};

}  // namespace

absl::Status CheckPs(const v1::TrainSpec& train, const FieldOrigins& origins) {
  return PsCheck(origins).Run(train);
}

}  // namespace dp
