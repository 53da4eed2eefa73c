#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/store/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// What every Store must do, run against each implementation:
//
//   INSTANTIATE_TEST_SUITE_P(HashStore, StoreConformance,
//                            ::testing::Values([] { return std::make_unique<dp::HashStore>(); }));

namespace dp {

// Opens an empty store. What it stands on (a server, a directory) lives in what it returns.
using OpenStore = std::function<std::unique_ptr<Store>()>;

class StoreConformance : public ::testing::TestWithParam<OpenStore> {
 protected:
  // Long enough for any machine; only a failing test waits for it.
  static constexpr absl::Duration kPatience = absl::Seconds(30);
  static constexpr absl::Duration kSoon = absl::Milliseconds(20);

  Store& store() { return *store_; }
  std::string ValueOf(const std::string& key) {
    return store().Get(key, absl::ZeroDuration()).value_or("(absent)");
  }

 private:
  std::unique_ptr<Store> store_ = GetParam()();
};

TEST_P(StoreConformance, GetReturnsWhatWasSetLast) {
  ASSERT_TRUE(store().Set("k", "first").ok());
  ASSERT_TRUE(store().Set("k", "second").ok());
  EXPECT_EQ(ValueOf("k"), "second");
}

TEST_P(StoreConformance, KeysAndValuesAreBytes) {
  const std::string key("-k\0\xff", 4), value("\0\n\x80", 3);
  ASSERT_TRUE(store().Set(key, value).ok());
  ASSERT_TRUE(store().Set("", "").ok());
  EXPECT_EQ(ValueOf(key), value);
  EXPECT_EQ(ValueOf(""), "");
}

TEST_P(StoreConformance, GetWaitsForTheKey) {
  std::jthread setter([this] { ASSERT_TRUE(store().Set("later", "v").ok()); });
  EXPECT_EQ(store().Get("later", kPatience).value_or("(none)"), "v");
}

TEST_P(StoreConformance, AwaitNamesTheMissingKeysAtItsDeadline) {
  ASSERT_TRUE(store().Set("here", "v").ok());
  auto values = store().MultiGet({"here", "gone", "lost"}, kSoon);
  ASSERT_EQ(values.status().code(), absl::StatusCode::kDeadlineExceeded);
  const std::string message(values.status().message());
  EXPECT_THAT(message, ::testing::HasSubstr("gone"));
  EXPECT_THAT(message, ::testing::HasSubstr("lost"));
  EXPECT_THAT(message, ::testing::Not(::testing::HasSubstr("here")));
}

TEST_P(StoreConformance, AwaitReturnsValuesInTheOrderAsked) {
  ASSERT_TRUE(store().Set("a", "1").ok());
  ASSERT_TRUE(store().Set("b", "2").ok());
  auto values = store().MultiGet({"b", "a", "b"}, kPatience);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(*values, ::testing::ElementsAre("2", "1", "2"));
}

TEST_P(StoreConformance, AwaitOfNothingReturnsAtOnce) {
  EXPECT_TRUE(store().Await({}, absl::ZeroDuration()).ok());
}

TEST_P(StoreConformance, AWaiterIsWokenByAddAndByCompareSet) {
  std::jthread changer([this] {
    ASSERT_TRUE(store().Add("n", 0).ok());
    ASSERT_TRUE(store().CompareSet("c", "", "v").ok());
  });
  auto values = store().MultiGet({"n", "c"}, kPatience);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(*values, ::testing::ElementsAre("0", "v"));
}

TEST_P(StoreConformance, AddCountsInDecimalTextUnderTheSameKeys) {
  EXPECT_EQ(*store().Add("n", 5), 5);
  EXPECT_EQ(*store().Add("n", -7), -2);
  EXPECT_EQ(ValueOf("n"), "-2");
  ASSERT_TRUE(store().Set("n", "40").ok());
  EXPECT_EQ(*store().Add("n", 2), 42);
}

TEST_P(StoreConformance, AddToAWordIsInvalid) {
  ASSERT_TRUE(store().Set("k", "word").ok());
  EXPECT_EQ(store().Add("k", 1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ValueOf("k"), "word");
}

TEST_P(StoreConformance, CompareSetAnswersTheValueAfterwards) {
  EXPECT_EQ(*store().CompareSet("k", "other", "new"), "other");
  EXPECT_EQ(ValueOf("k"), "(absent)");
  EXPECT_EQ(*store().CompareSet("k", "", "first"), "first");
  EXPECT_EQ(*store().CompareSet("k", "wrong", "second"), "first");
  EXPECT_EQ(*store().CompareSet("k", "first", "second"), "second");
}

TEST_P(StoreConformance, DeleteSaysWhetherTheKeyWasThere) {
  ASSERT_TRUE(store().Set("k", "v").ok());
  EXPECT_TRUE(*store().Delete("k"));
  EXPECT_FALSE(*store().Delete("k"));
  EXPECT_EQ(ValueOf("k"), "(absent)");
}

TEST_P(StoreConformance, ABatchAppliesAsOneOrNotAtAll) {
  ASSERT_TRUE(store().Set("word", "w").ok());
  auto results = store().Execute({StoreSet{"a", "1"}, StoreAdd{"word", 1}});
  EXPECT_EQ(results.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ValueOf("a"), "(absent)");
  results = store().Execute({StoreSet{"a", "1"}, StoreCheck{{"a", "word"}}, StoreGet{"b"}});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_TRUE((*results)[1].found);
  EXPECT_FALSE((*results)[2].found);
}

TEST_P(StoreConformance, AddsOfManyThreadsAreAllCounted) {
  constexpr int kThreads = 8, kAdds = 50;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([this] {
        for (int i = 0; i < kAdds; ++i) ASSERT_TRUE(store().Add("n", 1).ok());
      });
  }
  EXPECT_EQ(ValueOf("n"), absl::StrCat(kThreads * kAdds));
}

}  // namespace dp
