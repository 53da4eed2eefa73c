#include "server/core/generation_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dp::core {
namespace {

class GenerationStoreTest : public testing::Test {
 protected:
  absl::StatusOr<GenerationStore::Applied> Apply(uint64_t client, uint64_t sequence,
                                                 std::vector<StoreOperation> operations) {
    return store_.Apply({JobId(1), Generation(1), client, sequence, std::move(operations)});
  }

  GenerationStore store_;
};

TEST_F(GenerationStoreTest, ARetryIsAnsweredFromMemory) {
  EXPECT_EQ(Apply(1, 1, {StoreAdd{"n", 2}})->results.at(0).number, 2);
  EXPECT_EQ(Apply(2, 1, {StoreAdd{"n", 2}})->results.at(0).number, 4);
  EXPECT_EQ(Apply(1, 1, {StoreAdd{"n", 2}})->results.at(0).number, 2);
  EXPECT_EQ(Apply(1, 2, {StoreAdd{"n", 2}})->results.at(0).number, 6);
}

TEST_F(GenerationStoreTest, AnOlderSequenceIsRefused) {
  Apply(1, 2, {StoreSet{"k", "new"}}).value();
  EXPECT_EQ(Apply(1, 1, {StoreSet{"k", "old"}}).status().message(),
            "store client 1: sequence 1 is older than its last, 2");
  EXPECT_EQ(*store_.values().Find("k"), "new");
}

TEST_F(GenerationStoreTest, ABatchThatFailsMayBeTriedAgain) {
  EXPECT_FALSE(Apply(1, 1, {StoreSet{"a", "x"}, StoreAdd{"a", 1}}).ok());
  EXPECT_EQ(store_.values().Find("a"), nullptr);
  EXPECT_TRUE(Apply(1, 1, {StoreSet{"a", "1"}, StoreAdd{"a", 1}}).ok());
}

TEST_F(GenerationStoreTest, ReadsNeedNoClientAndAreNotRecorded) {
  Apply(1, 1, {StoreSet{"k", "v"}}).value();
  const GenerationStore::Applied read = *Apply(0, 0, {StoreGet{"k"}});
  EXPECT_EQ(read.results.at(0).value, "v");
  EXPECT_FALSE(read.recorded);
}

TEST_F(GenerationStoreTest, AWriteNeedsAClientAndASequence) {
  EXPECT_EQ(Apply(0, 0, {StoreSet{"k", "v"}}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(GenerationStoreTest, AnAnswerIsRecordedEvenWhereNothingChanged) {
  const GenerationStore::Applied applied = *Apply(1, 1, {StoreDelete{"absent"}});
  EXPECT_TRUE(applied.recorded);
  EXPECT_THAT(applied.changed, testing::IsEmpty());
}

}  // namespace
}  // namespace dp::core
