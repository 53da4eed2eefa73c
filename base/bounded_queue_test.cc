#include "base/bounded_queue.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

bool Push(BoundedQueue<int>& queue, int item) { return queue.TryPush(item); }

TEST(BoundedQueueTest, ItemsComeOutInOrderAllAtOnce) {
  BoundedQueue<int> queue(3);
  for (int i : {1, 2, 3}) ASSERT_TRUE(Push(queue, i));
  EXPECT_THAT(queue.DrainFor(absl::ZeroDuration()), ElementsAre(1, 2, 3));
  EXPECT_THAT(queue.DrainFor(absl::ZeroDuration()), IsEmpty());
}

TEST(BoundedQueueTest, AtMostSoManyItemsComeOutAndTheOthersFollow) {
  BoundedQueue<int> queue(3);
  for (int i : {1, 2, 3}) ASSERT_TRUE(Push(queue, i));
  EXPECT_THAT(queue.DrainFor(absl::InfiniteDuration(), 2), ElementsAre(1, 2));
  ASSERT_TRUE(Push(queue, 4));
  EXPECT_THAT(queue.DrainFor(absl::InfiniteDuration(), 2), ElementsAre(3, 4));
}

TEST(BoundedQueueTest, AFullQueueRefusesUntilItIsDrained) {
  BoundedQueue<int> queue(1);
  ASSERT_TRUE(Push(queue, 1));
  EXPECT_FALSE(Push(queue, 2));
  queue.DrainFor(absl::ZeroDuration());
  EXPECT_TRUE(Push(queue, 2));
}

TEST(BoundedQueueTest, AWaitingThreadIsWokenByAnItem) {
  BoundedQueue<int> queue(1);
  std::jthread pusher([&] { Push(queue, 7); });
  EXPECT_THAT(queue.DrainFor(absl::InfiniteDuration()), ElementsAre(7));
}

TEST(BoundedQueueTest, WhatIsPushedQuietlyIsThereAtTheNextWake) {
  BoundedQueue<int> queue(3);
  std::jthread pusher([&] {
    for (int i : {1, 2, 3}) EXPECT_TRUE(queue.TryPushQuietly(i));
    int fourth = 4;
    EXPECT_FALSE(queue.TryPushQuietly(fourth));
    queue.Wake();
  });
  pusher.join();
  EXPECT_THAT(queue.DrainFor(absl::InfiniteDuration()), ElementsAre(1, 2, 3));
}

TEST(BoundedQueueTest, AClosedQueueRefusesAndCanStillBeDrained) {
  BoundedQueue<int> queue(2);
  ASSERT_TRUE(Push(queue, 1));
  queue.Close();
  EXPECT_FALSE(Push(queue, 2));
  EXPECT_THAT(queue.DrainFor(absl::InfiniteDuration()), ElementsAre(1));
  EXPECT_THAT(queue.DrainFor(absl::InfiniteDuration()), IsEmpty());
}

}  // namespace
}  // namespace dp
