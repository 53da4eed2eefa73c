#include "proto/job/update_check.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/limits.h"

namespace dp {
namespace {

class UpdateCheck : private FieldCheck {
 public:
  explicit UpdateCheck(const FieldOrigins& origins) : FieldCheck(origins) {}

  absl::Status Run(const v1::TrainSpec& train) {
    CheckOptimizer(train.optimizer());
    if (train.has_schedule()) CheckSchedule(train.schedule());
    AtLeast("train.clipNorm", train.clip_norm(), 0);
    if (train.groups_size() > kParameterGroupsMax)
      Fail("train.groups", Wrong("train.groups", absl::StrCat("a list of ", train.groups_size()),
                                 absl::StrCat("at most ", kParameterGroupsMax)));
    for (int i = 0; i < train.groups_size(); ++i)
      CheckGroup(absl::StrCat("train.groups[", i, "]"), train.groups(i));
    if (train.has_ema()) CheckEma(train.ema());
    return first();
  }

 private:
  void CheckOptimizer(const v1::OptimizerSpec& optimizer) {
    const std::string path = "train.optimizer.";
    if (optimizer.has_adamw()) {
      const v1::AdamWSpec& adamw = optimizer.adamw();
      CheckAdam(path + "adamw", adamw);
      OneOf(path + "adamw.decay", adamw.decay(), {"matrices", "all"});
    } else if (optimizer.has_adam()) {
      CheckAdam(path + "adam", optimizer.adam());
    } else if (optimizer.has_sgd()) {
      CheckSgd(path + "sgd", optimizer.sgd());
    } else {
      Fail("train.optimizer",
           "train.optimizer.sgd is missing, and adamw and adam too; give one, as sgd: "
           "{learningRate: 0.05}");
    }
  }

  void CheckSgd(const std::string& path, const v1::SgdSpec& sgd) {
    CheckLearningRate(path, sgd.learning_rate(), "0.05");
    Share(path + ".momentum", sgd.momentum());
    AtLeast(path + ".weightDecay", sgd.weight_decay(), 0);
    if (sgd.nesterov() && sgd.momentum() == 0) {
      Fail(path + ".nesterov", absl::StrCat(path, ".nesterov is true without momentum; give ", path,
                                            ".momentum, such as 0.9, or leave nesterov out"));
    }
  }

  // The fields that adam and adamw share.
  void CheckAdam(const std::string& path, const auto& adam) {
    CheckLearningRate(path, adam.learning_rate(), "0.001");
    Share(path + ".beta1", adam.beta1());
    Share(path + ".beta2", adam.beta2());
    Above(path + ".epsilon", adam.epsilon(), 0);
    AtLeast(path + ".weightDecay", adam.weight_decay(), 0);
  }

  void CheckLearningRate(const std::string& optimizer, double value, const std::string& example) {
    const std::string path = optimizer + ".learningRate";
    if (!Given(path))
      Fail(optimizer, absl::StrCat(path, " is missing; give one, as learningRate: ", example));
    Above(path, value, 0);
  }

  void Share(const std::string& path, double value) {
    if (!(value >= 0 && value < 1)) Fail(path, Wrong(path, value, "at least 0 and below 1"));
  }

  void CheckGroup(const std::string& path, const v1::ParameterGroupSpec& group) {
    if (group.match().empty())
      Fail(path, absl::StrCat(path, ".match is missing; give names of weights, as \"*.bias\""));
    const bool has_options = group.has_weight_decay() || group.has_learning_rate_factor();
    if (group.frozen() == has_options)
      Fail(path, absl::StrCat(path, group.frozen()
                                        ? " is frozen, so its weights take no steps; leave "
                                          "weightDecay and learningRateFactor out"
                                        : " changes nothing; give weightDecay, learningRateFactor "
                                          "or frozen: true"));
    AtLeast(path + ".weightDecay", group.weight_decay(), 0);
    if (group.has_learning_rate_factor())
      Above(path + ".learningRateFactor", group.learning_rate_factor(), 0);
  }

  void CheckEma(const v1::EmaSpec& ema) {
    const std::string path = "train.ema.decay";
    if (!Given(path))
      Fail("train.ema", absl::StrCat(path, " is missing; give one, as decay: 0.999"));
    if (!(ema.decay() > 0 && ema.decay() < 1))
      Fail(path, Wrong(path, ema.decay(), "more than 0 and below 1"));
  }

  void CheckSchedule(const v1::ScheduleSpec& schedule) {
    const std::string path = "train.schedule.";
    AtLeast(path + "warmupSteps", schedule.warmup_steps(), 0);
    if (schedule.has_cosine()) CheckFall(path + "cosine", schedule.cosine());
    if (schedule.has_linear()) CheckFall(path + "linear", schedule.linear());
    if (schedule.has_step()) CheckStep(path + "step", schedule.step());
    if (schedule.has_multi_step()) CheckMultiStep(path + "multiStep", schedule.multi_step());
  }

  void CheckFall(const std::string& path, const auto& decay) {
    const double min = decay.min_factor();
    if (!(min >= 0 && min <= 1))
      Fail(path + ".minFactor", Wrong(path + ".minFactor", min, "0 to 1"));
    AtLeast(path + ".steps", decay.steps(), 0);
  }

  void CheckStep(const std::string& path, const v1::StepDecaySpec& step) {
    AtLeast(path + ".everyEpochs", step.every_epochs(), 0);
    AtLeast(path + ".everySteps", step.every_steps(), 0);
    OneOfTwo(path, "everyEpochs", step.every_epochs() > 0, "everySteps", step.every_steps() > 0,
             "everyEpochs: 30");
    Above(path + ".factor", step.factor(), 0);
  }

  void CheckMultiStep(const std::string& path, const v1::MultiStepDecaySpec& decay) {
    OneOfTwo(path, "atEpochs", !decay.at_epochs().empty(), "atSteps", !decay.at_steps().empty(),
             "atEpochs: [30, 60]");
    CheckAscending(path + ".atEpochs", decay.at_epochs());
    CheckAscending(path + ".atSteps", decay.at_steps());
    Above(path + ".factor", decay.factor(), 0);
  }

  void OneOfTwo(const std::string& path, const std::string& one, bool has_one,
                const std::string& other, bool has_other, const std::string& example) {
    if (has_one != has_other) return;
    Fail(path,
         absl::StrCat(path, " has ", has_one ? "both " : "neither ", one,
                      has_one ? " and " : " nor ", other, "; give one of them, as ", example));
  }

  void CheckAscending(const std::string& list, const auto& marks) {
    int64_t before = 0;
    for (int i = 0; i < marks.size(); ++i) {
      AtLeast<int64_t>(absl::StrCat(list, "[", i, "]"), marks[i], before + 1);
      before = marks[i];
    }
  }
};

}  // namespace

absl::Status CheckUpdates(const v1::TrainSpec& train, const FieldOrigins& origins) {
  return UpdateCheck(origins).Run(train);
}

}  // namespace dp
