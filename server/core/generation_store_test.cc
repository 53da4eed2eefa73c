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
  EXPECT_EQ(Apply(1, 1, {StoreAdd{"n", 2}})->answer.results.at(0).number, 2);
  EXPECT_EQ(Apply(2, 1, {StoreAdd{"n", 2}})->answer.results.at(0).number, 4);
  EXPECT_EQ(Apply(1, 1, {StoreAdd{"n", 2}})->answer.results.at(0).number, 2);
  EXPECT_EQ(Apply(1, 2, {StoreAdd{"n", 2}})->answer.results.at(0).number, 6);
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
  EXPECT_EQ(read.answer.results.at(0).value, "v");
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

TEST_F(GenerationStoreTest, ABatchWhoseAnswerNoMessageCarriesIsRefusedAndDoesNothing) {
  Apply(1, 1, {StoreSet{"k", std::string(7 << 20, 'x')}}).value();
  const std::vector<StoreOperation> batch(3, StoreGet{"k"});
  EXPECT_EQ(Apply(0, 0, batch).status().code(), absl::StatusCode::kResourceExhausted);
  std::vector<StoreOperation> writing = batch;
  writing.push_back(StoreAdd{"n", 1});
  EXPECT_EQ(Apply(1, 2, writing).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(store_.values().Find("n"), nullptr);
  EXPECT_TRUE(Apply(1, 2, {StoreGet{"k"}, StoreGet{"k"}, StoreAdd{"n", 1}}).ok());
}

TEST_F(GenerationStoreTest, AllThatIsKeptForClientsIsBoundedByTheStoresBytes) {
  const std::string value(8 << 20, 'v');
  store_ = GenerationStore({.total_bytes = size_t{20} << 20});
  Apply(1, 1, {StoreSet{"k", value}}).value();
  const auto compare = [&](uint64_t client, uint64_t sequence) {
    return Apply(client, sequence, {StoreCompareSet{"k", value, value}, StoreAdd{"n", 1}}).status();
  };
  for (uint64_t client = 2; client <= 4; ++client) EXPECT_EQ(compare(client, 1), absl::OkStatus());
  EXPECT_THAT(compare(5, 1).message(), testing::HasSubstr("--store-bytes-max"));
  EXPECT_EQ(compare(5, 1).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(*store_.values().Find("n"), "3");
  EXPECT_EQ(Apply(5, 1, {StoreAdd{"n", 1}})->answer.results.at(0).number, 4);  // small: it is kept
  EXPECT_EQ(compare(4, 2), absl::OkStatus());  // replaces the client's own answer
  Apply(2, 2, {StoreAdd{"n", 1}}).value();
  EXPECT_EQ(compare(5, 2), absl::OkStatus());
  EXPECT_LT(store_.kept_bytes(), size_t{25} << 20);
}

TEST_F(GenerationStoreTest, WhatIsKeptForClientsIsKnownAgainOfASnapshot) {
  const std::string value(8 << 20, 'v');
  Apply(1, 1, {StoreSet{"k", value}}).value();
  Apply(2, 1, {StoreCompareSet{"k", value, value}}).value();
  const GenerationStore again(store_.values(), store_.clients(), KeptAnswers::kBounded);
  EXPECT_GT(again.kept_bytes(), value.size());
  EXPECT_EQ(again.kept_bytes(), store_.kept_bytes());
}

// Batches of groups, as a relay sends them.
class GroupsTest : public testing::Test {
 protected:
  absl::StatusOr<GenerationStore::Applied> Apply(uint64_t sequence,
                                                 std::vector<StoreOperation> operations,
                                                 std::vector<uint32_t> groups) {
    return store_.Apply(
        {JobId(1), Generation(1), 7, sequence, std::move(operations), std::move(groups)});
  }

  GenerationStore store_;
};

TEST_F(GroupsTest, AGroupThatIsRefusedHarmsNoOther) {
  const auto applied =
      Apply(1, {StoreSet{"a", "x"}, StoreAdd{"a", 1}, StoreAdd{"n", 5}}, {1, 1, 1});
  ASSERT_EQ(applied->answer.refused.size(), 1u);
  EXPECT_EQ(applied->answer.refused[0].group, 1u);
  EXPECT_EQ(applied->answer.refused[0].status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(applied->answer.results.at(2).number, 5);
  EXPECT_THAT(applied->changed, testing::ElementsAre("a", "n"));
}

TEST_F(GroupsTest, AKeyThatWasThereForOneGroupOnlyHasChanged) {
  const auto applied = Apply(1, {StoreSet{"k", "v"}, StoreDelete{"k"}}, {1, 1});
  EXPECT_THAT(applied->changed, testing::ElementsAre("k"));
}

TEST_F(GroupsTest, AGroupIsAppliedAsOne) {
  const auto applied = Apply(1, {StoreSet{"a", "x"}, StoreAdd{"a", 1}}, {2});
  EXPECT_EQ(applied->answer.refused.size(), 1u);
  EXPECT_EQ(store_.values().Find("a"), nullptr);
}

TEST_F(GroupsTest, ARetryIsAnsweredFromMemoryWithItsRefusals) {
  const auto first = Apply(1, {StoreSet{"a", "x"}, StoreAdd{"a", 1}}, {1, 1});
  store_.Apply({JobId(1), Generation(1), 8, 1, {StoreSet{"a", "1"}}}).value();
  const auto again = Apply(1, {StoreSet{"a", "x"}, StoreAdd{"a", 1}}, {1, 1});
  EXPECT_EQ(again->answer.refused.size(), 1u);
  EXPECT_EQ(again->answer.results, first->answer.results);
  EXPECT_FALSE(again->recorded);
  EXPECT_EQ(*store_.values().Find("a"), "1");
}

TEST_F(GroupsTest, AGapIsRefused) {
  EXPECT_EQ(Apply(2, {StoreAdd{"n", 1}}, {1}).status().message(),
            "store client 7: sequence 2 does not follow its last, 0");
  Apply(1, {StoreAdd{"n", 1}}, {1}).value();
  EXPECT_EQ(Apply(3, {StoreAdd{"n", 1}}, {1}).status().message(),
            "store client 7: sequence 3 does not follow its last, 1");
  EXPECT_TRUE(Apply(2, {StoreAdd{"n", 1}}, {1}).ok());
}

TEST_F(GroupsTest, TheAnswerEndsWhereItIsFull) {
  const std::string large(3 << 20, 'x');
  Apply(1, {StoreSet{"k", large}}, {1}).value();
  const auto applied =
      Apply(2, {StoreGet{"k"}, StoreGet{"k"}, StoreGet{"k"}, StoreAdd{"n", 1}}, {1, 1, 1, 1});
  EXPECT_EQ(applied->answer.results.size(), 2u);
  EXPECT_EQ(store_.values().Find("n"), nullptr);
}

TEST_F(GroupsTest, AGroupThatOnlyReadsMayEndWhereTheAnswerIsFull) {
  Apply(1, {StoreSet{"k", std::string(3 << 20, 'x')}}, {1}).value();
  const auto applied = Apply(0, {StoreGet{"k"}, StoreGet{"k"}, StoreGet{"k"}}, {3});
  EXPECT_EQ(applied->answer.results.size(), 2u);
}

TEST_F(GroupsTest, AnAnswerThatNoMessageCanCarryIsRefused) {
  const std::string key(1 << 20, 'x');
  std::vector<StoreOperation> sets;
  for (int i = 0; i < 13; ++i) sets.push_back(StoreSet{absl::StrCat(key, i), "v"});
  store_ = GenerationStore(KeyValueLimits::None());
  Apply(1, sets, {13}).value();
  const auto applied = Apply(0, {StoreList{}, StoreList{.keys = false}}, {1, 1});
  ASSERT_EQ(applied->answer.refused.size(), 1u);
  EXPECT_EQ(applied->answer.refused[0].status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(applied->answer.results.at(1).number, 13);
}

TEST_F(GroupsTest, OfReadsBesideWritesLittleIsKept) {
  const std::string value(40 << 10, 'x');
  Apply(1, {StoreSet{"k", value}}, {1}).value();
  const auto applied = Apply(2, {StoreAdd{"n", 1}, StoreGet{"k"}, StoreGet{"k"}}, {1, 1, 1});
  EXPECT_EQ(applied->answer.results.size(), 2u);
  EXPECT_EQ(store_.clients().at(7).answer, applied->answer);
  EXPECT_EQ(Apply(0, {StoreGet{"k"}}, {1})->answer.results.at(0).value, value);
}

TEST_F(GroupsTest, LargeReadsBeforeAWriteAreAnsweredAloneAndNotKept) {
  Apply(1, {StoreSet{"k", std::string(100 << 10, 'x')}}, {1}).value();
  const auto applied = Apply(2, {StoreGet{"k"}, StoreGet{"k"}, StoreAdd{"n", 1}}, {1, 1, 1});
  EXPECT_EQ(applied->answer.results.size(), 2u);
  EXPECT_TRUE(applied->recorded);
  EXPECT_EQ(store_.clients().at(7).sequence, 2u);
  EXPECT_THAT(store_.clients().at(7).answer.results, testing::IsEmpty());
  EXPECT_EQ(Apply(3, {StoreAdd{"n", 1}}, {1})->answer.results.at(0).number, 1);
}

TEST_F(GroupsTest, WhatWasNotKeptIsReadAnewAndNothingIsWrittenWhateverItHasBecome) {
  const std::vector<StoreOperation> batch = {StoreGet{"k"}, StoreAdd{"n", 1}, StoreGet{"n"}};
  Apply(1, {StoreSet{"k", std::string(100 << 10, 'x')}}, {1}).value();
  Apply(2, batch, {1, 1, 1}).value();
  store_.Apply({JobId(1), Generation(1), 8, 1, {StoreSet{"k", "small"}}}).value();
  const auto again = Apply(2, batch, {1, 1, 1});
  ASSERT_EQ(again->answer.results.size(), 1u);
  EXPECT_EQ(again->answer.results[0].value, "small");
  EXPECT_FALSE(again->recorded);
  EXPECT_EQ(store_.values().Find("n"), nullptr);
}

TEST_F(GroupsTest, AGroupWhoseAnswerNoMessageCarriesIsRefusedAndDoesNothing) {
  Apply(1, {StoreSet{"k", std::string(7 << 20, 'x')}}, {1}).value();
  const auto applied =
      Apply(2, {StoreAdd{"n", 1}, StoreGet{"k"}, StoreGet{"k"}, StoreAdd{"m", 1}}, {3, 1});
  ASSERT_EQ(applied->answer.refused.size(), 1u);
  EXPECT_EQ(applied->answer.refused[0].status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(store_.values().Find("n"), nullptr);
  EXPECT_EQ(applied->answer.results.at(3).number, 1);
}

TEST_F(GroupsTest, JournalsOfEarlierReleasesKeepAnswersWhole) {
  store_ = GenerationStore(KeyValueLimits(), KeptAnswers::kWhole);
  Apply(1, {StoreSet{"k", std::string(100 << 10, 'x')}}, {1}).value();
  const auto applied = Apply(2, {StoreGet{"k"}, StoreAdd{"n", 1}, StoreGet{"k"}}, {1, 1, 1});
  EXPECT_EQ(applied->answer.results.size(), 3u);
  EXPECT_EQ(store_.clients().at(7).answer, applied->answer);
}

TEST_F(GroupsTest, WithoutRoomForItsAnswerABatchIsTakenInSmallerPartsAndALargeAnswerIsRefused) {
  const std::string value(100 << 10, 'v');
  store_ = GenerationStore({.total_bytes = size_t{200} << 10});
  Apply(1, {StoreSet{"k", value}}, {1}).value();
  for (uint64_t client = 8; client <= 9; ++client) {
    store_.Apply({JobId(1), Generation(1), client, 1, {StoreCompareSet{"k", value, value}}})
        .value();
  }
  std::vector<StoreOperation> adds(1000, StoreAdd{"n", 1});
  const auto part = Apply(2, adds, std::vector<uint32_t>(adds.size(), 1));
  EXPECT_LT(part->answer.results.size(), adds.size());
  EXPECT_EQ(*store_.values().Find("n"), absl::StrCat(part->answer.results.size()));
  const auto large = Apply(3, {StoreCompareSet{"k", value, "new"}, StoreDelete{"k"}}, {2});
  EXPECT_EQ(large->answer.refused.size(), 0u);  // the answer is small
  store_.Apply({JobId(1), Generation(1), 1, 1, {StoreQueuePush{"q", value}}}).value();
  const auto popped = Apply(4, {StoreQueuePop{"q"}, StoreAdd{"n", 0}}, {1, 1});
  ASSERT_EQ(popped->answer.refused.size(), 1u);
  EXPECT_THAT(popped->answer.refused[0].status.message(), testing::HasSubstr("are kept for the"));
  EXPECT_EQ(store_.values().queues().at("q").size(), 1u);
}

TEST_F(GroupsTest, GroupsMustAddUp) {
  for (const std::vector<uint32_t>& groups :
       {std::vector<uint32_t>{1}, {1, 1, 1}, {2, 0}, {~0u, 3}}) {
    EXPECT_EQ(Apply(1, {StoreAdd{"n", 1}, StoreAdd{"n", 1}}, groups).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace dp::core
