#include "proto/job/strategy_check.h"

#include <limits>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "proto/job/job_spec.h"
#include "proto/job/ps_check.h"

namespace dp {
namespace {

class StrategyCheck : private FieldCheck {
 public:
  StrategyCheck(const v1::JobSpec& spec, const FieldOrigins& origins)
      : FieldCheck(origins), spec_(spec) {}

  absl::Status Run() {
    const v1::TrainSpec& train = spec_.train();
    if (!train.strategy().has_mp()) CheckOneDevice(train.model());
    if (train.has_strategy()) {
      switch (train.strategy().kind_case()) {
        case v1::StrategySpec::kDdp:
          break;
        case v1::StrategySpec::kDp:
          CheckDataParallel(train);
          break;
        case v1::StrategySpec::kMp:
          CheckModelParallel(train);
          break;
        case v1::StrategySpec::kLocalSgd:
          CheckLocalSgd(train);
          break;
        case v1::StrategySpec::kPs:
          Take(CheckPs(train, origins()));
          break;
        case v1::StrategySpec::KIND_NOT_SET:
          Fail("train.strategy",
               "train.strategy is empty; give ddp, dp, mp, ps or localSgd, or leave it out");
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
    NormsSync(train.model(), strategy);
  }

  void NormsSync(const v1::ModelSpec& model, const std::string& strategy) {
    for (int i = 0; i < model.layers_size(); ++i) {
      const std::string path = absl::StrCat("train.model.layers[", i, "].batchNorm.sync");
      if (model.layers(i).batch_norm().sync())
        Fail(path, absl::StrCat(
                       path, " is true, and with train.strategy ", strategy,
                       " norms take the samples of one device at a time; leave one of them out"));
    }
  }

  void CheckDataParallel(const v1::TrainSpec& train) {
    const std::string path = "train.strategy.dp.devices";
    Between(path, train.strategy().dp().devices(), 1, kDevicesPerRankMax);
    const std::optional<RankRange> range = RanksOf(spec_);
    const int ranks = range ? range->max : spec_.ranks();
    if (ranks > 1)
      Fail("train.strategy",
           absl::StrCat("train.strategy dp trains in one process, and the job has ", ranks,
                        " ranks; leave ranks out and give train.strategy.dp.devices, or take ddp"));
    NormsSync(train.model(), "dp");
    OnCpus(train, "dp");
  }

  static std::string PlaceOf(int layer) {
    return absl::StrCat("train.model.layers[", layer, "].device");
  }

  void CheckOneDevice(const v1::ModelSpec& model) {
    for (int i = 0; i < model.layers_size(); ++i) {
      const int device = model.layers(i).device();
      if (device != 0)
        Fail(PlaceOf(i), absl::StrCat(PlaceOf(i), " is ", device,
                                      ", and only train.strategy mp places layers on several "
                                      "devices; give strategy: mp, or leave device out"));
    }
  }

  // Every device up to the last one has a layer.
  void CheckModelParallel(const v1::TrainSpec& train) {
    std::set<int> used;
    const v1::ModelSpec& model = train.model();
    for (const v1::LayerSpec& layer : model.layers()) used.insert(layer.device());
    if (used.size() < 2)
      Fail("train.strategy",
           "train.strategy mp places layers on several devices, and the model's layers are all on "
           "one; give train.model.layers with device: 1 and so on for some of them, or take ddp");
    int expected = 0;
    for (const int device : used) {
      if (device != expected)
        Fail("train.model.layers",
             absl::StrCat("no layer is on device ", expected, ", and some are on device ", device,
                          "; number the devices from 0 without gaps"));
      ++expected;
    }
    NormsSync(train.model(), "mp");
    OnCpus(train, "mp");
  }

  void OnCpus(const v1::TrainSpec& train, const std::string& strategy) {
    if (train.device() == "cpu") return;
    Fail("train.device",
         absl::StrCat("train.device is ", Quoted(train.device()), ", and train.strategy ", strategy,
                      " computes on CPUs; give train.device: cpu, or take ddp"));
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

  const v1::JobSpec& spec_;
};

}  // namespace

absl::Status CheckStrategy(const v1::JobSpec& spec, const FieldOrigins& origins) {
  return StrategyCheck(spec, origins).Run();
}

}  // namespace dp
