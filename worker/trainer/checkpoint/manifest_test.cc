#include "worker/trainer/checkpoint/manifest.h"

#include "gtest/gtest.h"
#include "worker/engine/device/device.h"
#include "worker/trainer/testing/striped_images.h"

namespace dp::trainer {
namespace {

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

TEST(ManifestTest, SaysWhichGpuComputesInWhichPrecision) {
  const v1::CheckpointManifest manifest =
      ManifestIn({.on_gpu = true, .card = {.model = "NVIDIA H100"}}, engine::Precision::kBfloat16);
  EXPECT_EQ(manifest.device(), "NVIDIA H100");
  EXPECT_EQ(manifest.instruction_set(), "");
  EXPECT_EQ(manifest.precision(), "bf16");
}

}  // namespace
}  // namespace dp::trainer
