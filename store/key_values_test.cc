#include "store/key_values.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

std::string Value(const KeyValues& store, absl::string_view key) {
  const std::string* value = store.Find(key);
  return value == nullptr ? "(absent)" : *value;
}

TEST(KeyValuesTest, LaterOperationsOfABatchSeeEarlierOnes) {
  KeyValues store;
  auto applied = store.Apply(
      {StoreSet{"a", "1"}, StoreAdd{"a", 2}, StoreGet{"a"}, StoreDelete{"a"}, StoreCheck{{"a"}}});
  ASSERT_TRUE(applied.ok());
  EXPECT_THAT(
      applied->results,
      ElementsAre(StoreResult{}, StoreResult{.number = 3}, StoreResult{.found = true, .value = "3"},
                  StoreResult{.found = true}, StoreResult{.found = false}));
  EXPECT_THAT(applied->changed, IsEmpty());
}

TEST(KeyValuesTest, AFailingOperationUndoesItsWholeBatch) {
  KeyValues store;
  ASSERT_TRUE(store.Apply({StoreSet{"a", "word"}}).ok());
  auto applied =
      store.Apply({StoreSet{"b", "1"}, StoreDelete{"a"}, StoreSet{"a", "word"}, StoreAdd{"a", 1}});
  EXPECT_EQ(applied.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Value(store, "a"), "word");
  EXPECT_EQ(Value(store, "b"), "(absent)");
}

TEST(KeyValuesTest, ChangedNamesOnlyTheKeysWhoseValueIsAnother) {
  KeyValues store;
  ASSERT_TRUE(store.Apply({StoreSet{"a", "1"}, StoreSet{"c", "3"}}).ok());
  auto applied = store.Apply({StoreSet{"b", "2"}, StoreSet{"a", "1"}, StoreDelete{"c"}});
  EXPECT_THAT(applied->changed, ElementsAre("b", "c"));
}

TEST(KeyValuesTest, AddCountsFromZeroAndKeepsDecimalText) {
  KeyValues store;
  EXPECT_EQ(store.Apply({StoreAdd{"n", 0}})->results[0].number, 0);
  EXPECT_EQ(Value(store, "n"), "0");
  EXPECT_EQ(store.Apply({StoreAdd{"n", -7}})->results[0].number, -7);
  EXPECT_EQ(Value(store, "n"), "-7");
}

TEST(KeyValuesTest, AddReadsWhatTheValueBeginsWithAsANumber) {
  KeyValues store;
  ASSERT_TRUE(store.Apply({StoreSet{"n", " 12abc"}}).ok());
  EXPECT_EQ(store.Apply({StoreAdd{"n", 1}})->results[0].number, 13);
  for (const char* word : {"", "word", "9223372036854775808"}) {
    ASSERT_TRUE(store.Apply({StoreSet{"n", word}}).ok());
    EXPECT_EQ(store.Apply({StoreAdd{"n", 1}}).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(KeyValuesTest, AddWrapsAtSixtyFourBits) {
  KeyValues store;
  ASSERT_TRUE(store.Apply({StoreAdd{"n", std::numeric_limits<int64_t>::max()}}).ok());
  EXPECT_EQ(store.Apply({StoreAdd{"n", 1}})->results[0].number,
            std::numeric_limits<int64_t>::min());
}

struct CompareSetCase {
  const char* before;  // null: absent
  StoreCompareSet operation;
  StoreResult result;
  const char* after;
};

TEST(KeyValuesTest, CompareSetFollowsItsTable) {
  const CompareSetCase cases[] = {
      {nullptr, {"k", "", "new"}, {.found = true, .value = "new"}, "new"},
      {nullptr, {"k", "old", "new"}, {.found = false, .value = "old"}, "(absent)"},
      {"old", {"k", "old", "new"}, {.found = true, .value = "new"}, "new"},
      {"other", {"k", "old", "new"}, {.found = false, .value = "other"}, "other"},
  };
  for (const CompareSetCase& c : cases) {
    KeyValues store;
    if (c.before != nullptr) {
      ASSERT_TRUE(store.Apply({StoreSet{"k", c.before}}).ok());
    }
    EXPECT_EQ(store.Apply({c.operation})->results[0], c.result);
    EXPECT_EQ(Value(store, "k"), c.after);
  }
}

TEST(KeyValuesTest, LimitsRefuseTheWholeBatchAndSayTheFigures) {
  KeyValues store({.key_bytes = 3, .value_bytes = 4, .keys = 2, .total_bytes = 10});
  auto refusal = [&](std::vector<StoreOperation> batch) {
    return std::string(store.Apply(batch).status().message());
  };
  EXPECT_THAT(refusal({StoreSet{"long", ""}}), HasSubstr("has 4 bytes, the limit is 3"));
  EXPECT_THAT(refusal({StoreSet{"a", "12345"}}), HasSubstr("has 5 bytes, the limit is 4"));
  EXPECT_THAT(refusal({StoreSet{"a", ""}, StoreSet{"b", ""}, StoreSet{"c", ""}}),
              HasSubstr("3 keys, the limit is 2"));
  EXPECT_THAT(refusal({StoreSet{"aaa", "1234"}, StoreSet{"bbb", "1"}}),
              HasSubstr("11 bytes, the limit is 10"));
  EXPECT_THAT(store.entries(), IsEmpty());
}

TEST(KeyValuesTest, BytesCountWhatIsHeldNow) {
  KeyValues store;
  ASSERT_TRUE(store.Apply({StoreSet{"ab", "123"}, StoreSet{"c", "4"}}).ok());
  EXPECT_EQ(store.bytes(), 7u);
  ASSERT_TRUE(store.Apply({StoreSet{"ab", "1"}, StoreDelete{"c"}}).ok());
  EXPECT_EQ(store.bytes(), 3u);
}

TEST(KeyValuesTest, AFailedBatchLeavesValuesQueuesBytesAndVersionsAsTheyWere) {
  KeyValues store;
  ASSERT_TRUE(store.Apply({StoreSet{"a", "1"}, StoreQueuePush{"q", "x"}}).ok());
  ASSERT_TRUE(store.Apply({StoreQueuePush{"q", "y"}, StoreSet{"word", "w"}}).ok());
  const size_t bytes = store.bytes();
  auto applied = store.Apply({StoreQueuePop{"q"}, StoreQueuePush{"q", "z"}, StoreQueuePop{"q"},
                              StoreQueuePush{"new", "n"}, StoreAppend{"a", "2"}, StoreDelete{"a"},
                              StoreAdd{"word", 1}});
  EXPECT_FALSE(applied.ok());
  EXPECT_EQ(store.bytes(), bytes);
  EXPECT_EQ(store.revision(), 2u);
  EXPECT_THAT(store.queues(), ElementsAre(Pair("q", ElementsAre("x", "y"))));
  EXPECT_EQ(store.Read({StoreGet{"a"}})->at(0),
            (StoreResult{.found = true, .value = "1", .version = 1}));
}

TEST(KeyValuesTest, QueuesAreFirstInFirstOutAndApartFromValues) {
  KeyValues store;
  ASSERT_TRUE(store.Apply({StoreQueuePush{"q", "1"}, StoreQueuePush{"q", "2"}}).ok());
  EXPECT_EQ(Value(store, "q"), "(absent)");
  EXPECT_EQ(store.Apply({StoreDelete{"q"}})->results[0].found, false);
  auto pops = store.Apply({StoreQueuePop{"q"}, StoreQueuePop{"q"}, StoreQueuePop{"q"}});
  EXPECT_THAT(pops->results,
              ElementsAre(StoreResult{.found = true, .value = "1", .number = 2},
                          StoreResult{.found = true, .value = "2", .number = 1}, StoreResult{}));
  EXPECT_TRUE(pops->any);
  EXPECT_THAT(pops->changed, IsEmpty());
  EXPECT_EQ(store.bytes(), 0u);
}

TEST(KeyValuesTest, AValueThatLaterOnesHaveMovedGetsItsVersion) {
  KeyValues store;
  std::vector<StoreOperation> sets = {StoreSet{"m", "1"}};
  for (int i = 0; i < 1000; ++i) sets.push_back(StoreSet{std::to_string(i), "1"});
  ASSERT_TRUE(store.Apply(sets).ok());
  for (const auto& [key, entry] : store.entries()) EXPECT_EQ(entry.version, 1u) << key;
}

TEST(KeyValuesTest, PushedNamesAQueueOnceForEachElementThatIsLeft) {
  KeyValues store;
  auto applied = store.Apply(
      {StoreQueuePush{"r", "1"}, StoreQueuePush{"q", "1"}, StoreQueuePush{"q", "2"},
       StoreQueuePop{"r"}, StoreQueuePush{"p", "1"}, StoreQueuePush{"p", "2"}, StoreQueuePop{"p"}});
  EXPECT_THAT(applied->pushed, ElementsAre("p", "q", "q"));
  EXPECT_THAT(applied->taken, ElementsAre("p", "r"));
  EXPECT_THAT(applied->changed, IsEmpty());
}

TEST(KeyValuesTest, QueuedElementsCountAgainstTheLimits) {
  KeyValues store({.key_bytes = 3, .value_bytes = 4, .keys = 2, .total_bytes = 10});
  EXPECT_FALSE(store.Apply({StoreQueuePush{"long", ""}}).ok());
  EXPECT_FALSE(store.Apply({StoreQueuePush{"q", "12345"}}).ok());
  ASSERT_TRUE(store.Apply({StoreQueuePush{"q", ""}, StoreQueuePush{"q", ""}}).ok());
  EXPECT_FALSE(store.Apply({StoreQueuePush{"q", ""}}).ok());
  EXPECT_FALSE(store.Apply({StoreSet{"k", ""}}).ok());
}

TEST(KeyValuesTest, AppendIsBoundByTheLimitOnAValue) {
  KeyValues store({.value_bytes = 4});
  ASSERT_TRUE(store.Apply({StoreAppend{"a", "12"}, StoreAppend{"a", "34"}}).ok());
  EXPECT_FALSE(store.Apply({StoreAppend{"a", "5"}}).ok());
  EXPECT_EQ(Value(store, "a"), "1234");
}

TEST(KeyValuesTest, VersionsGrowWithEachChangeAndNothingElse) {
  KeyValues store;
  const auto version = [&](const char* key) { return store.Read({StoreGet{key}})->at(0).version; };
  ASSERT_TRUE(store.Apply({StoreSet{"a", "1"}, StoreSet{"b", "1"}}).ok());
  ASSERT_TRUE(store.Apply({StoreSet{"a", "1"}, StoreSet{"b", "2"}, StoreSet{"b", "1"}}).ok());
  EXPECT_EQ(version("a"), 1u);
  EXPECT_EQ(version("b"), 1u);
  ASSERT_TRUE(store.Apply({StoreSet{"b", "2"}}).ok());
  EXPECT_EQ(version("b"), 2u);
  ASSERT_TRUE(store.Apply({StoreDelete{"a"}}).ok());
  EXPECT_EQ(version("a"), 3u);
}

TEST(KeyValuesTest, ListAnswersTheSortedKeysUnderAPrefix) {
  KeyValues store;
  ASSERT_TRUE(store.Apply({StoreSet{"p/b", ""}, StoreSet{"p/a", ""}, StoreSet{"q", ""}}).ok());
  const StoreResult listed = store.Read({StoreList{"p/"}})->at(0);
  EXPECT_THAT(listed.keys, ElementsAre("p/a", "p/b"));
  EXPECT_EQ(store.Read({StoreList{"", false}})->at(0).number, 3);
}

TEST(KeyValuesTest, ABarrierIsReachedByItsCountOrByAWord) {
  KeyValues store;
  const auto reached = [&] { return store.Read({StoreReached{"b", 2}})->at(0).found; };
  ASSERT_TRUE(store.Apply({StoreAdd{"b", 1}}).ok());
  EXPECT_FALSE(reached());
  ASSERT_TRUE(store.Apply({StoreAdd{"b", 1}}).ok());
  EXPECT_TRUE(reached());
  ASSERT_TRUE(store.Apply({StoreSet{"b", "go"}}).ok());
  EXPECT_TRUE(reached());
}

TEST(KeyValuesTest, MissingKeepsTheOrderAsked) {
  KeyValues store;
  ASSERT_TRUE(store.Apply({StoreSet{"b", ""}, StoreQueuePush{"q", ""}, StoreAdd{"n", 1}}).ok());
  const std::vector<Unmet> missing =
      store.Missing({StoreGet{"c"}, StoreGet{"b"}, StoreCheck{{"q", "a"}}, StoreQueueLength{"b"},
                     StoreReached{"n", 3}, StoreNewer{"b", 1}});
  EXPECT_EQ(Describe(missing),
            "key 'c', key 'a', queue 'b', barrier 'n' (1 of 3 have arrived), change of key 'b'");
}

TEST(KeyValuesTest, WhatChangesTheStoreCannotBeReadOrAwaited) {
  KeyValues store;
  EXPECT_EQ(store.Read({StoreQueuePop{"q"}}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace dp
