// Lets a script drive the engine's optimizers. Tensors are raw files in a directory.
//
//    update_probe DIR STEPS OPTION=VALUE...     STEPS steps from the weights DIR/NAME.f32 and the
//                                               gradients DIR/NAME.STEP.f32, STEP from 1 on; writes
//                                               the final NAME.f32
//
// The model has the linear layers `first` (5 to 6) and `second` (6 to 4). Options:
//
//    update=sgd|adam|adamw, rate, momentum, nesterov, decay, clip
//    average                                    its decay; also writes NAME.average.f32
//    warmup, cosine or linear (their last factor) with length, step or marks (a list with commas)
//    with factor, epoch (its steps)
//    freeze, slow, still                        name a weight: frozen, a tenth of the rate, no
//    decay

#include <fstream>
#include <iostream>
#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/model/layer_spec.h"
#include "worker/engine/device/device.h"
#include "worker/engine/nn/learning_rate.h"

namespace dp::engine {
namespace {

class Words {
 public:
  Words(char** begin, char** end) {
    for (char** word = begin; word != end; ++word) {
      const std::vector<std::string> parts = absl::StrSplit(*word, absl::MaxSplits('=', 1));
      DP_CHECK(parts.size() == 2);
      values_[parts[0]] = parts[1];
    }
  }
  bool has(const std::string& name) const { return values_.contains(name); }
  std::string text(const std::string& name) const { return has(name) ? values_.at(name) : ""; }
  double real(const std::string& name, double fallback = 0) const {
    double value = fallback;
    DP_CHECK(!has(name) || absl::SimpleAtod(values_.at(name), &value));
    return value;
  }
  int64_t whole(const std::string& name) const { return static_cast<int64_t>(real(name)); }

 private:
  std::map<std::string, std::string> values_;
};

LearningRateSchedule ScheduleOf(const Words& words) {
  LearningRateSchedule schedule = {.warmup_steps = words.whole("warmup")};
  if (words.has("cosine"))
    schedule.decay = CosineDecay{words.real("cosine"), words.whole("length")};
  if (words.has("linear"))
    schedule.decay = LinearDecay{words.real("linear"), words.whole("length")};
  const double factor = words.real("factor", 0.1);
  if (words.has("step"))
    schedule.decay = StepDecay{.every_epochs = words.whole("step"), .factor = factor};
  if (words.has("marks")) {
    MultiStepDecay decay = {.factor = factor};
    for (const auto mark : absl::StrSplit(words.text("marks"), ',')) {
      DP_CHECK(absl::SimpleAtoi(mark, &decay.at_steps.emplace_back()));
    }
    schedule.decay = decay;
  }
  return schedule;
}

OptimizerOptions OptionsOf(const Words& words) {
  const double clip_norm = words.real("clip"), average_decay = words.real("average");
  if (words.text("update") == "sgd") {
    return {SgdOptions{.learning_rate = words.real("rate"),
                       .momentum = static_cast<float>(words.real("momentum")),
                       .weight_decay = static_cast<float>(words.real("decay")),
                       .nesterov = words.has("nesterov")},
            clip_norm, average_decay};
  }
  return {AdamWOptions{.learning_rate = words.real("rate"),
                       .weight_decay = words.real("decay"),
                       .decay_all = true,
                       .decay_in_gradient = words.text("update") == "adam"},
          clip_norm, average_decay};
}

// The flat arrays of the model, and their parts as files.
class Weights {
 public:
  Weights(std::string dir, const Words& words)
      : layout_(LayOut(*model::CheckShapes(
            {{"first", model::Linear{.out = 6}}, {"second", model::Linear{.out = 4}}}, {5}))),
        dir_(std::move(dir)),
        device_(*OpenCpu(1)),
        values_(*device_->Allocate(layout_.size)),
        gradients_(*device_->Allocate(layout_.size)) {
    for (Parameter& p : layout_.parameters) {
      if (p.name == words.text("freeze")) p.options.frozen = true;
      if (p.name == words.text("slow")) p.options.learning_rate_factor = 0.1;
      if (p.name == words.text("still")) p.options.weight_decay = 0;
    }
  }

  std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerOptions& options) {
    return *device_->MakeOptimizer(options, layout_, values(), gradients());
  }
  void Load(absl::Span<float> flat, const std::string& ending) const {
    for (const Parameter& p : layout_.parameters) {
      std::ifstream file(absl::StrCat(dir_, "/", p.name, ending), std::ios::binary);
      file.read(reinterpret_cast<char*>(flat.data() + p.offset), p.size * sizeof(float));
      DP_CHECK(file.good());
    }
  }
  void Save(absl::Span<const float> flat, const std::string& ending) const {
    for (const Parameter& p : layout_.parameters) {
      std::ofstream file(absl::StrCat(dir_, "/", p.name, ending), std::ios::binary);
      file.write(reinterpret_cast<const char*>(flat.data() + p.offset), p.size * sizeof(float));
      DP_CHECK(file.good());
    }
  }
  absl::Span<float> values() { return values_->span(); }
  absl::Span<float> gradients() { return gradients_->span(); }

 private:
  ParameterLayout layout_;
  const std::string dir_;
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Array> values_;
  const std::unique_ptr<Array> gradients_;
};

void Update(const std::string& dir, int64_t steps, const Words& words) {
  Weights weights(dir, words);
  weights.Load(weights.values(), ".f32");
  const std::unique_ptr<Optimizer> optimizer = weights.MakeOptimizer(OptionsOf(words));
  const LearningRateSchedule schedule = ScheduleOf(words);
  const int64_t steps_of_epoch = std::max<int64_t>(1, words.whole("epoch"));
  for (int64_t step = 1; step <= steps; ++step) {
    weights.Load(weights.gradients(), absl::StrCat(".", step, ".f32"));
    optimizer->Step(
        {.number = step,
         .learning_rate_factor = LearningRateFactor(schedule, step, steps_of_epoch, steps)});
  }
  weights.Save(weights.values(), ".f32");
  if (words.has("average")) weights.Save(optimizer->state().back().values, ".average.f32");
}

}  // namespace
}  // namespace dp::engine

int main(int argc, char** argv) {
  DP_CHECK(argc >= 3);
  dp::engine::Update(argv[1], std::atoll(argv[2]), {argv + 3, argv + argc});
}
