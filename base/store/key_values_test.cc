#include "base/store/key_values.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

TEST(KeyValuesTest, AnAddBeyondSixtyFourBitsIsRefused) {
  KeyValues store;
  ASSERT_TRUE(store.Apply({StoreAdd{"n", std::numeric_limits<int64_t>::max()}}).ok());
  auto applied = store.Apply({StoreAdd{"n", 1}});
  EXPECT_EQ(applied.status().code(), absl::StatusCode::kInvalidArgument);
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

TEST(KeyValuesTest, MissingKeepsTheOrderAsked) {
  KeyValues store;
  ASSERT_TRUE(store.Apply({StoreSet{"b", ""}}).ok());
  EXPECT_THAT(store.Missing({"c", "b", "a"}), ElementsAre("c", "a"));
}

}  // namespace
}  // namespace dp
