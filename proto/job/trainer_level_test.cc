#include "proto/job/trainer_level.h"

#include "proto/job/testing/parsed_job.h"

namespace dp {
namespace {

int LevelWith(const std::vector<std::string>& overrides) {
  return TrainerLevelFor(Parsed(kMinimal, overrides).spec.train());
}

TEST(TrainerLevelTest, JobsOfEarlierReleasesNeedNone) {
  EXPECT_EQ(LevelWith({}), 0);
  EXPECT_EQ(LevelWith({"train.optimizer={adamw: {learningRate: 0.1}}", "train.epochs=3",
                       "train.checkpoint={dir: /a, everySteps: 1}", "train.nodes=1:2"}),
            0);
  EXPECT_EQ(LevelWith({"train.strategy=ddp"}), 0);
  EXPECT_EQ(LevelWith({"train.strategy=ps"}), 1);
}

TEST(TrainerLevelTest, LaterFieldsNeedTheirs) {
  EXPECT_EQ(LevelWith({"train.schedule={warmupSteps: 3}"}), 1);
  EXPECT_EQ(LevelWith({"train.optimizer={adam: {learningRate: 0.1}}"}), 1);
  EXPECT_EQ(LevelWith({"train.clipNorm=1"}), 1);
  EXPECT_EQ(LevelWith({"train.accumulate=2"}), 1);
  EXPECT_EQ(LevelWith({"train.batchSizePerRank=2"}), 1);
  EXPECT_EQ(LevelWith({"train.stepsPerEpoch=2"}), 1);
  EXPECT_EQ(LevelWith({"train.groups=[{match: '*.bias', frozen: true}]"}), 1);
  EXPECT_EQ(LevelWith({"train.ema={decay: 0.9}"}), 1);
  EXPECT_EQ(LevelWith({"train.strategy=dp"}), 1);
  EXPECT_EQ(LevelWith({"train.strategy=mp"}), 1);
  EXPECT_EQ(LevelWith({"train.strategy=localSgd"}), 1);
  EXPECT_EQ(LevelWith({"train.init={weights: /w}"}), 1);
  EXPECT_EQ(LevelWith({"train.metrics={confusionMatrix: true}"}), 1);
  EXPECT_EQ(LevelWith({"train.metrics={confusionMatrix: false}"}), 0);
  EXPECT_EQ(LevelWith({"train.earlyStop={}"}), 1);
  EXPECT_EQ(LevelWith({"train.checkpoint={dir: /a, everySteps: 1, best: {}}"}), 1);
  EXPECT_EQ(LevelWith({"train.output={weights: /a/w, best: true}"}), 1);
  EXPECT_EQ(LevelWith({"train.accumulate=1"}), 0);
  EXPECT_EQ(LevelWith({"train.precision=bf16", "train.device=cuda"}), 0);
  EXPECT_EQ(LevelWith({"train.precision=bf16", "train.device=cpu"}), 1);
  EXPECT_EQ(LevelWith({"train.data.mean=0.5", "train.data.std=0.5"}), 0);
  EXPECT_EQ(LevelWith({"train.data.mean=[0.5, 0.4, 0.3]"}), 1);
  EXPECT_EQ(LevelWith({"train.data={kind: cifar10, dir: /c}"}), 1);
  EXPECT_EQ(LevelWith({"train.data.augment={flip: true}"}), 1);
  EXPECT_EQ(
      LevelWith({"train.data={kind: text, train: [/a], context: 8, bpe: {vocab: /v, merges: /m}}"}),
      1);
  EXPECT_EQ(LevelWith({"train.loss={crossEntropy: {}}"}), 0);
  EXPECT_EQ(LevelWith({"train.loss={crossEntropy: {labelSmoothing: 0.1}}"}), 1);
  EXPECT_EQ(LevelWith({"train.loss={crossEntropy: {ignoreIndex: 0}}"}), 1);
  EXPECT_EQ(LevelWith({"train.loss={crossEntropy: {classWeights: [1, 2]}}"}), 1);
  EXPECT_EQ(LevelWith({"train.loss={norm: {}}"}), 1);
}

// The defaults of later fields say nothing new.
TEST(TrainerLevelTest, LaterLayersNeedTheirs) {
  const auto level = [](const std::string& layer) {
    return LevelWith({"train.model={layers: [" + layer + ", {flatten: {}}, {linear: {out: 10}}]}"});
  };
  EXPECT_EQ(level("{conv2d: {out: 4, kernel: 3}}, {gelu: {}}, {maxPool2d: {kernel: 2}}"), 0);
  EXPECT_EQ(level("{conv2d: {out: 4, kernel: 3, dilation: 2}}"), 1);
  EXPECT_EQ(level("{conv2d: {out: 4, kernel: 3, groups: 2}}"), 1);
  EXPECT_EQ(level("{maxPool2d: {kernel: 2, padding: 1}}"), 1);
  EXPECT_EQ(level("{gelu: {approximate: none}}"), 1);
  EXPECT_EQ(level("{batchNorm: {}}"), 1);
  EXPECT_EQ(level("{device: 0, relu: {}}"), 0);
  EXPECT_EQ(level("{device: 1, relu: {}}"), 1);
  EXPECT_EQ(LevelWith({"train.model={layers: [{flatten: {}}, {linear: {}}]}"}), 1);
  EXPECT_EQ(level("{name: a, relu: {}}, {input: a, relu: {}}"), 1);
  EXPECT_EQ(level("{plugin: {library: /l.so}}"), 1);
  EXPECT_EQ(LevelWith({"train.model={plugin: {library: /l.so}}"}), 1);
  EXPECT_EQ(LevelWith({"train.model={preset: resnet18}"}), 1);
  EXPECT_EQ(LevelWith({"train.model={preset: cnn}"}), 0);
}

// A misspelt row would gate nothing.
TEST(TrainerLevelTest, TheTableNamesFieldsAndLevelsThatExist) {
  const auto* pool = v1::TrainSpec::descriptor()->file()->pool();
  int highest = 0;
  for (const LaterField& later : LaterFields()) {
    const auto* field = pool->FindFieldByName(std::string(later.field));
    ASSERT_NE(field, nullptr) << later.field;
    const auto text = google::protobuf::FieldDescriptor::CPPTYPE_STRING;
    EXPECT_TRUE(later.value.empty() || field->cpp_type() == text) << later.field;
    const auto number = google::protobuf::FieldDescriptor::CPPTYPE_INT32;
    EXPECT_TRUE(later.above == 0 || field->is_repeated() || field->cpp_type() == number)
        << later.field;
    EXPECT_GE(later.level, 1);
    highest = std::max(highest, later.level);
  }
  EXPECT_EQ(highest, kTrainerLevel);
}

}  // namespace
}  // namespace dp
