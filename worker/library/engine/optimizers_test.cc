#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "dp/engine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/listed_module.h"
#include "worker/library/testing/thrown.h"

namespace dp::distributed {
namespace {

using library::ErrorOf;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;

// A weight of two axes and a bias of one.
class TwoParameters : public Module {
 public:
  std::vector<Parameter> parameters() override {
    std::vector<Parameter> all = {{"weight", {1, 2}, weight, weight_gradient},
                                  {"bias", {int64_t(bias.size())}, bias, bias_gradient}};
    if (lacks_gradient) all[1].gradient = std::nullopt;
    if (has_null_gradient) all[1].gradient = MutableElements(nullptr, 1, DataType::kFloat32);
    if (bias_gradient_is_bias) all[1].gradient = bias;
    if (has_null_values) all[0].values = MutableElements(nullptr, 2, DataType::kFloat32);
    return all;
  }

  std::vector<float> weight = {1, -2}, weight_gradient = {0.5f, -0.25f};
  std::vector<float> bias = {1}, bias_gradient = {2};
  bool lacks_gradient = false;
  bool has_null_gradient = false;
  bool has_null_values = false;
  bool bias_gradient_is_bias = false;
};

TEST(SgdTest, MomentumAndDecayAreThoseOfTheFormula) {
  TwoParameters module;
  Sgd sgd(module, {.learning_rate = 0.1, .momentum = 0.5, .weight_decay = 0.2});
  sgd.step();
  // d = (0.5 + 0.2, -0.25 - 0.4); the first velocity is d
  EXPECT_THAT(module.weight, ElementsAre(FloatEq(0.93f), FloatEq(-1.935f)));
  EXPECT_THAT(module.bias, ElementsAre(FloatEq(0.78f)));
  sgd.step();
  // d = 0.5 + 0.186; velocity = 0.35 + 0.686
  EXPECT_FLOAT_EQ(module.weight[0], 0.93f - 0.1036f);
}

TEST(SgdTest, NesterovLooksAhead) {
  TwoParameters module;
  Sgd(module, {.learning_rate = 0.1, .momentum = 0.5, .nesterov = true}).step();
  EXPECT_FLOAT_EQ(module.weight[0], 1 - 0.1f * (0.5f + 0.25f));
}

TEST(SgdTest, ALearningRateHoldsFromTheNextStep) {
  TwoParameters module;
  Sgd sgd(module, {.learning_rate = 0.1});
  sgd.set_learning_rate(1);
  sgd.step();
  EXPECT_THAT(module.weight, ElementsAre(0.5f, -1.75f));
  EXPECT_THAT(ErrorOf([&] { sgd.set_learning_rate(-1); }).what(),
              HasSubstr("learning_rate is -1; give 0 or more"));
}

TEST(SgdTest, TheLearningRateIsTorchsByDefault) {
  EXPECT_EQ(SgdOptions().learning_rate, 0.001);
  EXPECT_EQ(AdamWOptions().learning_rate, 0.001);
}

TEST(SgdTest, TwoParametersOfOneNameAreRejected) {
  library::ListedModule module({{"w", {1}}, {"b", {1}}, {"w", {2}}});
  for (const DistError& error : {ErrorOf([&] { Sgd{module}; }), ErrorOf([&] { AdamW{module}; })}) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("two parameters are named 'w', and the optimizer keeps"));
  }
}

TEST(SgdTest, AGradientThatHasMovedIsFound) {
  TwoParameters module;
  Sgd sgd(module, {.learning_rate = 1});
  module.weight_gradient = std::vector<float>(2, 1.0f);
  sgd.step();
  EXPECT_THAT(module.weight, ElementsAre(0, -3));
}

TEST(SgdTest, StatesThatAreLoadedGoOnWithTheSameBits) {
  const SgdOptions options = {.learning_rate = 0.1, .momentum = 0.9};
  TwoParameters whole, resumed;
  Sgd first(whole, options);
  first.step();
  resumed.weight = whole.weight;
  resumed.bias = whole.bias;
  Sgd second(resumed, options);
  second.load(first.states());
  first.step();
  second.step();
  EXPECT_EQ(resumed.weight, whole.weight);
  EXPECT_EQ(resumed.bias, whole.bias);
  OptimizerStates wrong = first.states();
  wrong["weight"][0].pop_back();
  EXPECT_THAT(ErrorOf([&] { second.load(wrong); }).what(), HasSubstr("parameter 'weight' has 1"));
  wrong.erase("weight");
  EXPECT_THAT(ErrorOf([&] { second.load(wrong); }).what(), HasSubstr("are missing"));
}

TEST(AdamWTest, TheFirstStepIsTheLearningRateAndTheDecay) {
  TwoParameters module;
  AdamW adamw(module, {.learning_rate = 0.1, .weight_decay = 0.5});
  adamw.step();
  EXPECT_THAT(module.weight, ElementsAre(FloatEq(0.95f - 0.1f), FloatEq(-1.9f + 0.1f)));
  EXPECT_THAT(module.bias, ElementsAre(FloatEq(0.95f - 0.1f)));
  EXPECT_EQ(adamw.steps(), 1);
}

TEST(AdamWTest, ParametersOfOneAxisMayStay) {
  TwoParameters module;
  AdamW(module, {.learning_rate = 0.1, .weight_decay = 0.5, .decay_all = false}).step();
  EXPECT_FLOAT_EQ(module.weight[0], 0.85f);
  EXPECT_FLOAT_EQ(module.bias[0], 0.9f);
}

TEST(AdamWTest, StatesThatAreLoadedGoOnWithTheSameBits) {
  TwoParameters whole, resumed;
  AdamW first(whole);
  first.step();
  resumed.weight = whole.weight;
  resumed.bias = whole.bias;
  AdamW second(resumed);
  second.load(first.states(), first.steps());
  first.step();
  second.step();
  EXPECT_EQ(resumed.weight, whole.weight);
  EXPECT_EQ(second.steps(), 2);
}

TEST(AdamWTest, OnlyACountOfStepsIsLoaded) {
  TwoParameters module;
  AdamW adamw(module);
  for (const int64_t steps : {int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    const DistError error = ErrorOf([&] { adamw.load(adamw.states(), steps); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_EQ(error.what(), "steps is " + std::to_string(steps) +
                                "; give 0 to 9007199254740992, as steps() returned it");
  }
  adamw.load(adamw.states(), int64_t{1} << 53);
  adamw.step();
  EXPECT_EQ(adamw.steps(), (int64_t{1} << 53) + 1);
}

TEST(OptimizerTest, OptionsOutOfRangeAreErrors) {
  TwoParameters module;
  const auto why = [&](const AdamWOptions& options) {
    const DistError error = ErrorOf([&] { AdamW(module, options); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return std::string(error.what());
  };
  EXPECT_EQ(why({.beta1 = 1}), "beta1 is 1; give 0 or more, but less than 1");
  EXPECT_EQ(why({.epsilon = -1}), "epsilon is -1; give 0 or more");
  EXPECT_EQ(why({.learning_rate = std::nan("")}), "learning_rate is nan; give 0 or more");
  EXPECT_THAT(ErrorOf([&] { Sgd(module, {.learning_rate = 1, .nesterov = true}); }).what(),
              HasSubstr("nesterov needs a momentum above 0"));
}

TEST(OptimizerTest, AParameterWithoutAGradientIsNamed) {
  TwoParameters module;
  module.lacks_gradient = true;
  EXPECT_THAT(ErrorOf([&] { Sgd(module, {.learning_rate = 1}); }).what(),
              HasSubstr("parameter 'bias' has no gradient of float32"));
}

TEST(OptimizerTest, AParameterAtNullIsNamed) {
  TwoParameters module;
  Sgd sgd(module, {.learning_rate = 1});
  AdamW adamw(module);
  module.has_null_gradient = true;
  const DistError error = ErrorOf([&] { sgd.step(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_STREQ(error.what(),
               "parameter 'bias' has 1 elements, and the address of its gradient is null; let "
               "parameters() name memory of that size");
  EXPECT_EQ(ErrorOf([&] { adamw.step(); }).kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(ErrorOf([&] { AdamW another(module); }).kind(), ErrorKind::kInvalidArgument);
  module.has_null_gradient = false;
  module.has_null_values = true;
  EXPECT_THAT(ErrorOf([&] { sgd.step(); }).what(),
              HasSubstr("parameter 'weight' has 2 elements, and the address of its values"));
}

TEST(OptimizerTest, AGradientInTheMemoryOfItsValuesIsNamed) {
  TwoParameters module;
  module.bias_gradient_is_bias = true;
  const DistError error = ErrorOf([&] { Sgd another(module); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("parameter 'bias' has its gradient in the memory of its"));
}

TEST(OptimizerTest, OneThatWasMovedFromSaysSo) {
  TwoParameters module;
  Sgd sgd(module, {.learning_rate = 1});
  Sgd sgd_now = std::move(sgd);
  AdamW adamw(module);
  AdamW adamw_now = std::move(adamw);
  for (const DistError& error : {ErrorOf([&] { sgd.step(); }), ErrorOf([&] { adamw.step(); })}) {
    EXPECT_EQ(error.kind(), ErrorKind::kWrongState);
    EXPECT_THAT(error.what(), HasSubstr("no states for parameter 'weight': it was moved from, or"));
  }
  sgd_now.step();
  adamw_now.step();
}

TEST(OptimizerTest, AParameterThatHasGrownIsNamed) {
  TwoParameters module;
  Sgd sgd(module, {.learning_rate = 1});
  module.bias.push_back(1);
  module.bias_gradient.push_back(1);
  const DistError error = ErrorOf([&] { sgd.step(); });
  EXPECT_EQ(error.kind(), ErrorKind::kWrongState);
  EXPECT_THAT(error.what(), HasSubstr("parameter 'bias' has 2 elements, and had 1 when the"));
}

}  // namespace
}  // namespace dp::distributed
