#include "server/driver/awaited_reads.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using core::Topic;
using Mode = AwaitedReads::Mode;

// A store, and a caller that waits in it and learns each change at once.
class AwaitedReadsTest : public ::testing::Test {
 protected:
  void Await(std::vector<StoreOperation> reads, Mode mode) {
    reads_ = std::make_unique<AwaitedReads>(std::move(reads), mode);
    Look();
  }
  // Applies each group, then passes on the changes of all groups at once.
  void Do(const std::vector<StoreOperation>& groups) {
    std::vector<Topic> topics;
    for (const StoreOperation& group : groups) {
      const KeyValues::Applied applied = store_.Apply(absl::MakeConstSpan(&group, 1)).value();
      for (const std::string& key : applied.changed)
        topics.push_back({Topic::Kind::kStoreKey, 1, key});
      for (const std::string& queue : applied.pushed)
        topics.push_back({Topic::Kind::kStoreElement, 1, queue});
    }
    Look(topics);
  }
  void Look(const std::vector<Topic>& topics = {}) {
    std::vector<const Topic*> changed;
    for (const Topic& topic : topics) changed.push_back(&topic);
    found_ = reads_->AllFound(store_, changed);
  }

  KeyValues store_;
  std::unique_ptr<AwaitedReads> reads_;
  bool found_ = false;
};

TEST_F(AwaitedReadsTest, EachWaitsForNoKeyAgainThatWasThere) {
  Await({StoreCheck{{"a"}}, StoreCheck{{"b"}}}, Mode::kEach);
  Do({StoreSet{"a", ""}});
  Do({StoreDelete{"a"}});
  EXPECT_FALSE(found_);
  Do({StoreSet{"b", ""}});
  EXPECT_TRUE(found_);
}

TEST_F(AwaitedReadsTest, EachSeesAKeyThatWasThereForAMomentOnly) {
  Await({StoreCheck{{"a"}}}, Mode::kEach);
  Do({StoreSet{"a", ""}, StoreDelete{"a"}});
  EXPECT_TRUE(found_);
}

TEST_F(AwaitedReadsTest, EachFindsAnElementWhenItIsOfferedAndTogetherAtOnce) {
  ASSERT_TRUE(store_.Apply(std::vector<StoreOperation>{StoreQueuePush{"q", ""}}).ok());
  for (const StoreOperation& read :
       std::vector<StoreOperation>{StoreCheck{{"q"}}, StoreQueueLength{"q"}}) {
    Await({read}, Mode::kTogether);
    EXPECT_TRUE(found_);
    Await({read}, Mode::kEach);
    EXPECT_FALSE(found_);
    Look({Topic{Topic::Kind::kStoreElement, 1, "q"}});
    EXPECT_TRUE(found_);
  }
}

TEST_F(AwaitedReadsTest, AnElementThatIsGoneIsNotFound) {
  Await({StoreCheck{{"q"}}}, Mode::kEach);
  Do({StoreQueuePush{"q", ""}, StoreQueuePop{"q"}});
  EXPECT_FALSE(found_);
}

TEST_F(AwaitedReadsTest, EachAnswersWhatWasFoundAsItWasThenAndTheRestAsMissing) {
  ASSERT_TRUE(store_.Apply(std::vector<StoreOperation>{StoreSet{"a", "first"}}).ok());
  Await({StoreGet{"a"}, StoreGet{"b"}}, Mode::kEach);
  Do({StoreSet{"a", "second"}});
  const std::vector<StoreResult> results = reads_->Results(store_);
  EXPECT_EQ(results.at(0).value, "first");
  EXPECT_FALSE(results.at(1).found);
}

TEST_F(AwaitedReadsTest, TogetherWantsAllAtOneMoment) {
  Await({StoreGet{"a"}, StoreGet{"b"}}, Mode::kTogether);
  Do({StoreSet{"a", "1"}});
  Do({StoreDelete{"a"}});
  Do({StoreSet{"b", "2"}});
  EXPECT_FALSE(found_);
  Do({StoreSet{"a", "3"}});
  EXPECT_TRUE(found_);
  EXPECT_EQ(reads_->Results(store_).at(0).value, "3");
}

TEST(StoreTopicsTest, AWaitDependsOnTheWorldAndOnWhatItsReadsLookAt) {
  const std::vector<StoreOperation> reads = {StoreGet{"k"}, StoreCheck{{"c"}},
                                             StoreQueueLength{"q"}};
  EXPECT_THAT(StoreTopics(JobId(7), reads),
              ::testing::ElementsAre(
                  Topic{Topic::Kind::kWorldState, 7}, Topic{Topic::Kind::kStoreKey, 7, "k"},
                  Topic{Topic::Kind::kStoreKey, 7, "c"}, Topic{Topic::Kind::kStoreElement, 7, "c"},
                  Topic{Topic::Kind::kStoreElement, 7, "q"}));
}

}  // namespace
}  // namespace dp::server
