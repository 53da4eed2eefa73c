#include "worker/engine/device/cuda/step/cuda_step_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dp::engine::cuda {
namespace {

using ::testing::ElementsAre;

// Three operations forward, the loss, and backward of four parameters, the last two completed at
// once.
LayerProgram SomeProgram() {
  LayerProgram program;
  program.layout.parameters.resize(4);
  program.operations.resize(8);
  program.loss = 3;
  program.operations[4].completes = {0};
  program.operations[5].completes = {1};
  program.operations[7].completes = {2, 3};
  return program;
}

Bucket Of(int first, int parameters) {
  return {.first_parameter = first, .parameters = parameters};
}

TEST(CudaStepCutTest, WithoutBucketsAStepIsOnePiece) {
  EXPECT_THAT(CutStep(SomeProgram(), {}), ElementsAre(8));
}

TEST(CudaStepCutTest, APieceEndsWhereABucketIsComplete) {
  EXPECT_THAT(CutStep(SomeProgram(), {Of(0, 1), Of(1, 3)}), ElementsAre(5, 8));
  EXPECT_THAT(CutStep(SomeProgram(), {Of(0, 2), Of(2, 2)}), ElementsAre(6, 8));
}

TEST(CudaStepCutTest, BucketsThatAreCompleteAtOnceEndOnePiece) {
  EXPECT_THAT(CutStep(SomeProgram(), {Of(0, 2), Of(2, 1), Of(3, 1)}), ElementsAre(6, 8));
}

TEST(CudaStepCutTest, WhatTheLossCompletesWaitsForTheBucketsBeforeIt) {
  EXPECT_THAT(CutStep(SomeProgram(), {Of(0, 4), Of(4, 1)}), ElementsAre(8));
  EXPECT_THAT(CutStep(SomeProgram(), {Of(0, 1), Of(1, 4)}), ElementsAre(5, 8));
}

TEST(CudaStepCutTest, WhatHasNoGradientIsLeftToTheLastPiece) {
  LayerProgram program = SomeProgram();
  program.operations[7].completes.clear();
  program.layout.parameters.resize(2);
  EXPECT_THAT(CutStep(program, {Of(0, 1), Of(1, 1)}), ElementsAre(5, 6, 8));
}

}  // namespace
}  // namespace dp::engine::cuda
