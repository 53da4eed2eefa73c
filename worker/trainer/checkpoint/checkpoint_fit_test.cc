#include "worker/trainer/checkpoint/checkpoint_fit.h"

#include "gtest/gtest.h"
#include "worker/engine/device/device.h"
#include "worker/trainer/testing/striped_images.h"

namespace dp::trainer {
namespace {

v1::CheckpointManifest AManifest() {
  v1::CheckpointManifest manifest;
  manifest.set_seed(3);
  manifest.set_samples(60000);
  manifest.set_global_batch_size(128);
  v1::ManifestTensor* tensor = manifest.add_tensors();
  tensor->set_name("linear0.weight");
  tensor->add_shape(10);
  tensor->add_shape(784);
  manifest.set_world_size(4);
  manifest.set_threads_per_rank(1);
  manifest.set_instruction_set("avx2");
  return manifest;
}

TEST(CheckpointFitTest, TheSameTrainingFitsWithTheSameBits) {
  EXPECT_TRUE(CheckFits(AManifest(), AManifest()).ok());
  EXPECT_EQ(OtherBits(AManifest(), AManifest()), "");
}

TEST(CheckpointFitTest, AnotherTensorIsNamedWithBothShapes) {
  v1::CheckpointManifest now = AManifest();
  now.mutable_tensors(0)->set_shape(1, 100);
  EXPECT_EQ(CheckFits(AManifest(), now).message(),
            "the checkpoint was made with the tensor linear0.weight 10x784, and this job has "
            "linear0.weight 10x100");
}

TEST(CheckpointFitTest, WhatMovesThePositionInTheDataIsRefused) {
  v1::CheckpointManifest seed = AManifest(), samples = AManifest(), batch = AManifest(),
                         shuffle = AManifest(), drop = AManifest(), epoch = AManifest();
  seed.set_seed(4);
  samples.set_samples(50000);
  batch.set_global_batch_size(64);
  shuffle.set_shuffle(true);
  drop.set_drop_last(true);
  epoch.set_steps_per_epoch(7);
  for (const auto& now : {seed, samples, batch, shuffle, drop, epoch}) {
    EXPECT_EQ(CheckFits(AManifest(), now).code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST(CheckpointFitTest, AnotherOptimizerIsRefusedAndNoneIsSgd) {
  v1::CheckpointManifest sgd = AManifest(), adamw = AManifest();
  sgd.set_optimizer("sgd");
  adamw.set_optimizer("adamw");
  EXPECT_TRUE(CheckFits(AManifest(), sgd).ok());
  EXPECT_EQ(CheckFits(AManifest(), adamw).message(),
            "the checkpoint was made with train.optimizer sgd, and this job has adamw");
}

TEST(CheckpointFitTest, AnotherScheduleIsRefusedUnlessTheCheckpointIsOlderThanSchedules) {
  v1::CheckpointManifest constant = AManifest(), cosine = AManifest();
  constant.set_schedule("constant");
  cosine.set_schedule("cosine to 0.1");
  EXPECT_TRUE(CheckFits(cosine, cosine).ok());
  EXPECT_TRUE(CheckFits(AManifest(), cosine).ok());
  EXPECT_EQ(CheckFits(constant, cosine).message(),
            "the checkpoint was made with train.schedule constant, and this job has cosine to 0.1");
}

TEST(CheckpointFitTest, AnAverageCannotBeginFromACheckpointWithoutOne) {
  v1::CheckpointManifest averages = AManifest();
  averages.set_ema(true);
  EXPECT_TRUE(CheckFits(averages, averages).ok());
  EXPECT_TRUE(CheckFits(averages, AManifest()).ok());
  EXPECT_EQ(CheckFits(AManifest(), averages).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(CheckpointFitTest, SumsAreInTheOrderThatIsRecordedAndElseInThatOfTheRanks) {
  v1::CheckpointManifest checkpoint = AManifest();
  EXPECT_EQ(SumOrderOf(checkpoint), engine::ReduceOrder::kRank);
  for (const auto order : {engine::ReduceOrder::kTree, engine::ReduceOrder::kRank}) {
    checkpoint.set_sum_order(std::string(engine::NameOf(order)));
    EXPECT_EQ(SumOrderOf(checkpoint), order);
    EXPECT_TRUE(CheckFits(checkpoint, AManifest()).ok());
  }
  checkpoint.set_sum_order("ring");
  EXPECT_EQ(
      CheckFits(checkpoint, AManifest()).message(),
      "the checkpoint's training sums gradients in the order \"ring\", which this release does "
      "not know; resume it with the release that wrote it");
}

TEST(CheckpointFitTest, WhatChangesTheBitsAloneIsTold) {
  v1::CheckpointManifest now = AManifest();
  now.set_world_size(3);
  now.set_instruction_set("avx512_core");
  now.set_accumulate(2);
  EXPECT_TRUE(CheckFits(AManifest(), now).ok());
  EXPECT_EQ(OtherBits(AManifest(), now),
            "ranks was 4 and is 3; train.accumulate was 1 and is 2; the instruction set was avx2 "
            "and is avx512_core");
}

TEST(CheckpointFitTest, AnotherDeviceOrPrecisionIsToldAndTheCpusAffairsAreNotOnAGpu) {
  v1::CheckpointManifest cpu = AManifest(), gpu = AManifest(), other = AManifest();
  cpu.set_device("cpu");
  cpu.set_precision("float32");
  gpu.set_device("NVIDIA H100");
  gpu.set_precision("bf16");
  gpu.clear_instruction_set();
  gpu.set_threads_per_rank(8);
  other = gpu;
  other.set_device("NVIDIA A100");
  other.set_threads_per_rank(1);
  EXPECT_TRUE(CheckFits(cpu, gpu).ok());
  EXPECT_EQ(OtherBits(cpu, gpu),
            "the device was cpu and is NVIDIA H100; train.precision was float32 and is bf16");
  EXPECT_EQ(OtherBits(gpu, other), "the device was NVIDIA H100 and is NVIDIA A100");
  EXPECT_EQ(OtherBits(gpu, gpu), "");
}

TEST(CheckpointFitTest, AnotherFileOfAPluginIsToldWithBothHashes) {
  const auto with_plugin = [](const std::string& sha256) {
    v1::CheckpointManifest manifest = AManifest();
    v1::ManifestPlugin* plugin = manifest.add_plugins();
    plugin->set_library("/l.so");
    plugin->set_sha256(sha256);
    return manifest;
  };
  const std::string first(64, 'a'), second(64, 'b');
  EXPECT_TRUE(CheckFits(with_plugin(first), with_plugin(second)).ok());
  EXPECT_EQ(OtherBits(with_plugin(first), with_plugin(second)),
            "the plug-in was /l.so of SHA-256 aaaaaaaaaaaa... and is /l.so of SHA-256 "
            "bbbbbbbbbbbb...");
  EXPECT_EQ(OtherBits(with_plugin(first), with_plugin(first)), "");
}

TEST(CheckpointFitTest, WhatAnEarlierReleaseDidNotWriteIsNotCompared) {
  v1::CheckpointManifest now = AManifest();
  now.set_device("cpu");
  now.set_precision("float32");
  EXPECT_EQ(OtherBits(AManifest(), now), "");
}

v1::CheckpointManifest ManifestIn(const Environment& environment, engine::Precision precision) {
  TrainingPlan plan = APlan();
  plan.precision = precision;
  return ManifestOf(plan, environment, {}, /*samples=*/8, "local");
}

TEST(ManifestTest, SaysThatACpuComputesWithWhichInstructions) {
  const v1::CheckpointManifest manifest = ManifestIn({}, engine::Precision::kFloat32);
  EXPECT_EQ(manifest.device(), "cpu");
  EXPECT_EQ(manifest.instruction_set(), engine::CpuInstructionSet());
  EXPECT_EQ(manifest.precision(), "float32");
}

// A job may go on with the other value, and nothing is logged.
TEST(ManifestTest, DoesNotSayWhetherRunsHaveTheSameBits) {
  TrainingPlan same_bits = APlan(), any_bits = APlan();
  any_bits.deterministic = false;
  const auto manifest = [](const TrainingPlan& plan) {
    return ManifestOf(plan, {}, {}, /*samples=*/8, "local");
  };
  EXPECT_EQ(manifest(same_bits).SerializeAsString(), manifest(any_bits).SerializeAsString());
}

TEST(ManifestTest, SaysWhichGpuComputesInWhichPrecision) {
  const v1::CheckpointManifest manifest =
      ManifestIn({.on_gpu = true, .card = {.model = "NVIDIA H100"}}, engine::Precision::kBfloat16);
  EXPECT_EQ(manifest.device(), "NVIDIA H100");
  EXPECT_EQ(manifest.instruction_set(), "");
  EXPECT_EQ(manifest.precision(), "bf16");
}

}  // namespace
}  // namespace dp::trainer
