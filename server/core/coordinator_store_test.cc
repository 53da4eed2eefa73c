// The stores of jobs, as the machine keeps them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "server/policy/testing/coordinator_fixture.h"

namespace dp::core {
namespace {

using testing::ElementsAre;

class CoordinatorStoreTest : public CoordinatorFixture {
 protected:
  StoreBatch Batch(JobId job, uint64_t client, uint64_t sequence,
                   std::vector<StoreOperation> operations) {
    return {job, Generation(1), client, sequence, std::move(operations)};
  }
};

TEST_F(CoordinatorStoreTest, TheStoreIsDroppedWithItsGeneration) {
  Register("node", 1);
  const JobId job = SubmitAndRun(1);
  EXPECT_TRUE(Apply(Batch(job, 1, 1, {StoreSet{"key", "value"}})).journal);
  ASSERT_TRUE(coordinator_.store(job, Generation(1)).ok());
  EXPECT_EQ(*(*coordinator_.store(job, Generation(1)))->Find("key"), "value");
  Apply(CancelJob{job});
  EXPECT_EQ(Apply(Batch(job, 1, 2, {StoreSet{"key", "other"}})).status.code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(coordinator_.version({Topic::Kind::kStoreKey, job.value(), "key"}).valid());
}

TEST_F(CoordinatorStoreTest, ARepeatedBatchGetsTheFirstAnswerAndNoSecondEffect) {
  Register("node", 1);
  const JobId job = SubmitAndRun(1);
  const StoreBatch add = Batch(job, 9, 1, {StoreAdd{"counter", 5}});
  const Outcome first = Apply(add);
  const Outcome second = Apply(add);
  EXPECT_EQ(std::get<std::vector<StoreResult>>(second.reply).at(0).number, 5);
  EXPECT_TRUE(first.journal);
  EXPECT_FALSE(second.journal);
  EXPECT_THAT(first.changed, ElementsAre(Topic{Topic::Kind::kStoreKey, job.value(), "counter"}));
}

TEST_F(CoordinatorStoreTest, AnElementOfAQueueIsToldOnceForEachAndThatItWasTaken) {
  Register("node", 1);
  const JobId job = SubmitAndRun(1);
  const Topic element{Topic::Kind::kStoreElement, job.value(), "q"};
  EXPECT_THAT(Apply(Batch(job, 9, 1, {StoreQueuePush{"q", "1"}, StoreQueuePush{"q", "2"}})).changed,
              ElementsAre(element, element));
  const Outcome popped = Apply(Batch(job, 9, 2, {StoreQueuePop{"q"}}));
  EXPECT_TRUE(popped.journal);
  EXPECT_THAT(popped.changed, ElementsAre(Topic{Topic::Kind::kStoreTaken, job.value(), "q"}));
}

}  // namespace
}  // namespace dp::core
