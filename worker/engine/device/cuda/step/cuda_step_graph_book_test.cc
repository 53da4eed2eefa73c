#include "worker/engine/device/cuda/step/cuda_step_graph_book.h"

#include <gtest/gtest.h>

namespace dp::engine::cuda {
namespace {

using Way = StepGraphBook::Way;

const int kSomething = 0, kSomethingElse = 0;
const StepForm kForm = {.values = &kSomething, .batch_size = 8};

void Capture(StepGraphBook& book, const StepForm& form) {
  EXPECT_EQ(book.WayOf(form), Way::kOperations);
  EXPECT_EQ(book.WayOf(form), Way::kCapture);
  book.Captured();
}

TEST(CudaStepGraphBookTest, TheSecondStepIsCapturedAndLaunchedFromThenOn) {
  StepGraphBook book;
  Capture(book, kForm);
  for (int step = 0; step < 3; ++step) EXPECT_EQ(book.WayOf(kForm), Way::kLaunch);
}

TEST(CudaStepGraphBookTest, AnotherFormIsCapturedAnew) {
  StepGraphBook book;
  Capture(book, kForm);
  StepForm other = kForm;
  other.data = &kSomethingElse;
  Capture(book, other);
  EXPECT_EQ(book.WayOf(other), Way::kLaunch);
  EXPECT_EQ(book.WayOf(kForm), Way::kOperations);
}

TEST(CudaStepGraphBookTest, ARefusedCaptureIsNotTriedAgain) {
  StepGraphBook book;
  EXPECT_EQ(book.WayOf(kForm), Way::kOperations);
  EXPECT_EQ(book.WayOf(kForm), Way::kCapture);
  book.Refused();
  for (int step = 0; step < 3; ++step) EXPECT_EQ(book.WayOf(kForm), Way::kOperations);
}

TEST(CudaStepGraphBookTest, EveryPartOfAFormCounts) {
  const StepForm forms[] = {{&kSomethingElse, nullptr, nullptr, 8},
                            {&kSomething, &kSomething, nullptr, 8},
                            {&kSomething, nullptr, &kSomething, 8},
                            {&kSomething, nullptr, nullptr, 9}};
  for (const StepForm& form : forms) {
    StepGraphBook book;
    Capture(book, kForm);
    EXPECT_EQ(book.WayOf(form), Way::kOperations);
  }
}

}  // namespace
}  // namespace dp::engine::cuda
