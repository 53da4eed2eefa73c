#include "worker/trainer/model/training_plan.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace dp::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<TrainingPlan> Plan(const std::string& text) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
  return PlanTraining(spec);
}

TEST(TrainingPlanTest, WhatIsNotSaidTakesItsDefault) {
  const auto plan = Plan("train { model { preset: 'mlp' } }");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->epochs, 1);
  EXPECT_EQ(plan->global_batch_size, 128);
  EXPECT_EQ(plan->threads, 1);
  EXPECT_EQ(plan->backend, "auto");
  EXPECT_EQ(plan->precision, engine::Precision::kFloat32);
  EXPECT_EQ(plan->bucket_bytes_max, 25 << 20);
  EXPECT_EQ(plan->evaluate_every, 1);
  EXPECT_TRUE(plan->shuffle);
  EXPECT_THAT(std::get<engine::ArrayDatasetOptions>(plan->data.source).normalization.std,
              IsEmpty());
}

TEST(TrainingPlanTest, EveryPrecisionHasItsName) {
  EXPECT_EQ(Plan("train { precision: 'float32' }")->precision, engine::Precision::kFloat32);
  EXPECT_EQ(Plan("train { precision: 'tf32' }")->precision, engine::Precision::kTf32);
  EXPECT_EQ(Plan("train { precision: 'bf16' }")->precision, engine::Precision::kBfloat16);
  const engine::Loss loss =
      Plan("train { loss { cross_entropy { label_smoothing: 0.25 } } }")->loss;
  EXPECT_EQ(std::get<engine::CrossEntropyLoss>(loss).label_smoothing, 0.25);
  EXPECT_FALSE(std::get<engine::CrossEntropyLoss>(loss).ignored.has_value());
  const engine::Loss weighted =
      Plan("train { loss { cross_entropy { ignore_index: 0 class_weights: [1, 2.5] } } }")->loss;
  EXPECT_EQ(std::get<engine::CrossEntropyLoss>(weighted).ignored, 0);
  EXPECT_THAT(std::get<engine::CrossEntropyLoss>(weighted).class_weights,
              ::testing::ElementsAre(1, 2.5f));
  EXPECT_EQ(Plan("train { loss { norm {} } }")->loss.index(),
            engine::Loss(engine::NormLoss()).index());
  EXPECT_EQ(Plan("train { loss { bce {} } }")->loss.index(),
            engine::Loss(engine::BceLoss()).index());
}

// A job of an earlier release does not say it.
TEST(TrainingPlanTest, RunsHaveTheSameBitsUnlessTheJobSaysOtherwise) {
  EXPECT_TRUE(Plan("train { }")->deterministic);
  EXPECT_TRUE(Plan("train { deterministic: true }")->deterministic);
  EXPECT_FALSE(Plan("train { deterministic: false }")->deterministic);
}

TEST(TrainingPlanTest, WhatIsSaidIsTaken) {
  const auto plan = Plan(R"(
      threads_per_rank: 2
      detect_within { seconds: 5 }
      train { evaluate_every: 0 data { shuffle: false mean: 0.5 std: 0.25 } backend: 'gloo'
              precision: 'bf16'
              model { layers { name: 'a' conv2d { out: 8 kernel: 3 bias: false } } } })");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->threads, 2);
  EXPECT_EQ(plan->detect_within, absl::Seconds(5));
  EXPECT_EQ(plan->evaluate_every, 0);
  EXPECT_EQ(plan->precision, engine::Precision::kBfloat16);
  EXPECT_FALSE(plan->shuffle);
  EXPECT_THAT(std::get<engine::ArrayDatasetOptions>(plan->data.source).normalization.std,
              ElementsAre(0.25f));
  ASSERT_EQ(plan->layers.size(), 1u);
  const auto& conv = std::get<model::Conv2d>(plan->layers[0].kind);
  EXPECT_EQ(conv.out, 8);
  EXPECT_EQ(conv.stride, 1);
  EXPECT_FALSE(conv.bias);
}

TEST(TrainingPlanTest, SgdIsTaken) {
  const auto plan = Plan(R"(
      train { optimizer { sgd { learning_rate: 0.5 momentum: 0.25 weight_decay: 0.125 nesterov: true } }
              clip_norm: 2 })");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->clip_norm, 2);
  const auto& sgd = std::get<engine::SgdOptions>(plan->optimizer);
  EXPECT_EQ(sgd.learning_rate, 0.5f);
  EXPECT_EQ(sgd.momentum, 0.25f);
  EXPECT_EQ(sgd.weight_decay, 0.125f);
  EXPECT_TRUE(sgd.nesterov);
}

TEST(TrainingPlanTest, ATextAndAdamWAreTaken) {
  const auto plan = Plan(R"(
      train { data { kind: 'tokens' train: '/a.bin' train: '/b.bin' context: 64 }
              model { preset: 'gpt' }
              optimizer { adamw { learning_rate: 1 beta1: 0 decay: 'all' } } })");
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto& text = std::get<engine::TokenDatasetOptions>(plan->data.source);
  EXPECT_EQ(text.format, engine::TokenFormat::kTokens);
  EXPECT_EQ(text.train.size(), 2u);
  EXPECT_EQ(text.context, 64);
  EXPECT_EQ(text.vocabulary, 50257);
  const auto& adamw = std::get<engine::AdamWOptions>(plan->optimizer);
  EXPECT_EQ(adamw.beta1, 0);
  EXPECT_EQ(adamw.beta2, 0.999);
  EXPECT_TRUE(adamw.decay_all);
}

TEST(TrainingPlanTest, AdamIsAdamWThatDecaysInTheGradient) {
  const auto plan = Plan("train { optimizer { adam { learning_rate: 0.5 weight_decay: 0.25 } } }");
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto& adam = std::get<engine::AdamWOptions>(plan->optimizer);
  EXPECT_EQ(adam.beta2, 0.999);
  EXPECT_EQ(adam.weight_decay, 0.25);
  EXPECT_TRUE(adam.decay_in_gradient && adam.decay_all);
  EXPECT_EQ(OptimizerName(*plan), "adam");
  EXPECT_EQ(LearningRate(*plan), 0.5);
}

TEST(TrainingPlanTest, SchedulesAreTaken) {
  const auto name = [](const std::string& schedule) {
    const auto plan = Plan("train { schedule { " + schedule + " } }");
    return plan.ok() ? NameOf(plan->schedule) : plan.status().ToString();
  };
  EXPECT_EQ(name(""), "constant");
  EXPECT_EQ(name("warmup_steps: 5"), "5 warmupSteps, then constant");
  EXPECT_EQ(name("warmup_steps: 5 cosine { min_factor: 0.1 steps: 7 }"),
            "5 warmupSteps, then cosine to 0.1 in 7 steps");
  EXPECT_EQ(name("linear { }"), "linear to 0");
  EXPECT_EQ(name("step { every_epochs: 3 factor: 0.5 }"), "times 0.5 every 3 epochs");
  EXPECT_EQ(name("step { every_steps: 4 }"), "times 0.1 every 4 steps");
  EXPECT_EQ(name("multi_step { at_epochs: 3 at_epochs: 6 }"), "times 0.1 at epochs 3, 6");
  EXPECT_EQ(name("multi_step { at_steps: 3 factor: 2 }"), "times 2 at steps 3");
}

TEST(TrainingPlanTest, BatchesAndEpochsAreTaken) {
  const auto plan =
      Plan("ranks: 3 train { batch_size_per_rank: 8 accumulate: 2 steps_per_epoch: 7 }");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->global_batch_size, 24);
  EXPECT_EQ(plan->accumulate, 2);
  EXPECT_EQ(plan->steps_per_epoch, 7);
  EXPECT_EQ(Plan("train { }")->accumulate, 1);
}

TEST(TrainingPlanTest, SamplesOfOtherKindsAreTaken) {
  const auto plan = Plan(R"(
      train { data { kind: 'cifar100' dir: '/c' mean: 0.5 mean: 0.25 mean: 0 classes: 100 } })");
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto& samples = std::get<engine::ArrayDatasetOptions>(plan->data.source);
  EXPECT_EQ(std::get<data::CifarSource>(samples.source).kind, data::Cifar::k100);
  EXPECT_THAT(samples.normalization.mean, ElementsAre(0.5f, 0.25f, 0));
  EXPECT_EQ(plan->data.classes, 100);
}

TEST(TrainingPlanTest, ArraysAndTablesAreTaken) {
  const auto arrays = Plan(R"(train { data { kind: 'arrays' validation: 0.25
      arrays { train { inputs: '/x.npy' labels: '/y.npy' } } } })");
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  EXPECT_EQ(arrays->data.validation, 0.25);
  const auto source = [](const absl::StatusOr<TrainingPlan>& plan) {
    return std::get<engine::ArrayDatasetOptions>(plan->data.source).source;
  };
  EXPECT_EQ(std::get<data::ArraySource>(source(arrays)).train.labels, "/y.npy");
  EXPECT_FALSE(std::get<data::ArraySource>(source(arrays)).train.two_axes);
  const auto places = Plan(R"(train { data { kind: 'arrays' } model { layers { conv1d {} } } })");
  EXPECT_TRUE(std::get<data::ArraySource>(source(places)).train.two_axes);
  const auto csv = Plan(R"(train { data { kind: 'csv' train: '/a' train: '/b' test: '/c'
      csv { header: false delimiter: ';' inputs: '1' labels: '2' } } })");
  ASSERT_TRUE(csv.ok()) << csv.status();
  const data::CsvSource table = std::get<data::CsvSource>(source(csv));
  EXPECT_THAT(table.train.paths, ElementsAre("/a", "/b"));
  EXPECT_THAT(table.test.paths, ElementsAre("/c"));
  EXPECT_EQ(table.test.header, false);
  EXPECT_EQ(table.test.delimiter, ';');
  EXPECT_EQ(table.train.labels, "2");
}

TEST(TrainingPlanTest, FoldersOfImagesAreTakenWithTheirChanges) {
  const auto plan = Plan(R"(train { seed: 7 data { kind: 'imageFolder' dir: '/d' size: 32 size: 48
      augment { flip: true crop { padding: 4 } resized_crop {} } } })");
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto& folder = std::get<engine::FolderDatasetOptions>(plan->data.source);
  EXPECT_EQ(folder.columns, 48);
  EXPECT_EQ(folder.channels, 3);
  EXPECT_EQ(folder.resized_crop->area_min, 0.08);
  EXPECT_EQ(folder.resized_crop->seed, 7u);
  EXPECT_TRUE(plan->data.augment->flip);
  EXPECT_EQ(plan->data.augment->padding, 4);
  EXPECT_FALSE(Plan("train { data { kind: 'imageFolder' } }").ok());
}

TEST(TrainingPlanTest, SyntheticSamplesAreTaken) {
  const auto plan = Plan(R"(train { data { kind: 'synthetic' classes: 3
      synthetic { shape: 4 samples: 50 } } })");
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto& synthetic = std::get<engine::SyntheticDatasetOptions>(plan->data.source);
  EXPECT_EQ(synthetic.test_samples, 5);
  EXPECT_EQ(synthetic.shape, (model::Shape{4}));
  EXPECT_FALSE(Plan("train { data { kind: 'synthetic' } }").ok());
}

TEST(TrainingPlanTest, AKindOfLaterReleasesIsNamedWithARemedy) {
  EXPECT_EQ(Plan("train { data { kind: 'video' } }").status().message(),
            "train.data.kind 'video' is unknown to this trainer; update dp on the workers, or use "
            "another kind");
}

TEST(TrainingPlanTest, AnUnknownPresetIsNamed) {
  EXPECT_THAT(Plan("train { model { preset: 'gpt9' } }").status().message(), HasSubstr("gpt9"));
}

TEST(TrainingPlanTest, ALayerWithoutAKindIsRefused) {
  EXPECT_FALSE(Plan("train { model { layers { name: 'x' } } }").ok());
}

}  // namespace
}  // namespace dp::trainer
