#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/store.h"

// The contract of every Store, run against each implementation:
//
//   INSTANTIATE_TEST_SUITE_P(HashStore, StoreConformance,
//                            ::testing::Values([] { return std::make_unique<dp::HashStore>(); }));
//
// StoreAppendConformance has what servers of the TCPStore protocol lack before PyTorch 2.1, and
// StoreLaterVerbsConformance what they lack before 2.8. StoreBatchConformance has what that
// protocol lacks: atomic batches, and versions. Instantiate them in the same way.

namespace dp {

// Opens an empty store. The returned store owns what it needs (a server, a directory).
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

class StoreAppendConformance : public StoreConformance {};
class StoreLaterVerbsConformance : public StoreConformance {};
class StoreBatchConformance : public StoreConformance {};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoreBatchConformance);

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

TEST_P(StoreBatchConformance, ABatchAppliesAsOneOrNotAtAll) {
  ASSERT_TRUE(store().Set("word", "w").ok());
  auto results = store().Execute({StoreSet{"a", "1"}, StoreAdd{"word", 1}});
  EXPECT_EQ(results.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ValueOf("a"), "(absent)");
  results = store().Execute({StoreSet{"a", "1"}, StoreCheck{{"a", "word"}}, StoreGet{"b"}});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_TRUE((*results)[1].found);
  EXPECT_FALSE((*results)[2].found);
}

TEST_P(StoreAppendConformance, AppendPutsBytesBehindWhatIsThere) {
  ASSERT_TRUE(store().Append("k", "po").ok());
  ASSERT_TRUE(store().Append("k", "tato").ok());
  EXPECT_EQ(ValueOf("k"), "potato");
}

TEST_P(StoreAppendConformance, AnAppendWakesWhoWaitsForTheKey) {
  std::jthread appender([this] { ASSERT_TRUE(store().Append("later", "v").ok()); });
  EXPECT_EQ(store().Get("later", kPatience).value_or("(none)"), "v");
}

TEST_P(StoreConformance, MultiSetAndMultiGetTakeManyKeys) {
  ASSERT_TRUE(store().MultiSet({{"a", "1"}, {"b", "2"}}).ok());
  EXPECT_THAT(*store().MultiGet({"b", "a"}, kPatience), ::testing::ElementsAre("2", "1"));
  EXPECT_TRUE(store().MultiGet({}, absl::ZeroDuration()).ok());
}

TEST_P(StoreConformance, CheckAndWaitWantAllKeys) {
  EXPECT_TRUE(*store().Check({}));
  ASSERT_TRUE(store().Set("a", "").ok());
  EXPECT_TRUE(*store().Check({"a"}));
  EXPECT_FALSE(*store().Check({"a", "b"}));
  EXPECT_TRUE(store().Wait({"a"}, absl::ZeroDuration()).ok());
  EXPECT_EQ(store().Wait({"a", "b"}, kSoon).code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_P(StoreLaterVerbsConformance, ListKeysAndNumKeysSeeValuesOnly) {
  ASSERT_TRUE(store().MultiSet({{"p/b", ""}, {"q", ""}, {"p/a", ""}}).ok());
  ASSERT_TRUE(store().QueuePush("p/queue", "v").ok());
  EXPECT_THAT(*store().ListKeys(), ::testing::ElementsAre("p/a", "p/b", "q"));
  EXPECT_THAT(*store().ListKeys("p/"), ::testing::ElementsAre("p/a", "p/b"));
  EXPECT_EQ(*store().NumKeys(), 3);
  ASSERT_TRUE(*store().Delete("q"));
  EXPECT_EQ(*store().NumKeys(), 2);
}

TEST_P(StoreLaterVerbsConformance, AQueueIsFirstInFirstOut) {
  EXPECT_EQ(*store().QueueLength("q"), 0);
  EXPECT_EQ(*store().QueuePush("q", "1"), 1);
  EXPECT_EQ(*store().QueuePush("q", ""), 2);
  EXPECT_TRUE(*store().Check({"q"}));
  EXPECT_TRUE(store().Wait({"q"}, absl::ZeroDuration()).ok());
  EXPECT_EQ(*store().QueuePop("q", absl::ZeroDuration()), "1");
  EXPECT_EQ(*store().QueuePop("q", absl::ZeroDuration()), "");
  EXPECT_FALSE(*store().Check({"q"}));
  EXPECT_EQ(*store().QueueLength("q"), 0);
}

TEST_P(StoreLaterVerbsConformance, AQueueAndAValueOfOneNameDoNotTouchEachOther) {
  ASSERT_TRUE(store().QueuePush("n", "element").ok());
  EXPECT_EQ(ValueOf("n"), "(absent)");
  ASSERT_TRUE(store().Set("n", "value").ok());
  EXPECT_TRUE(*store().Delete("n"));
  EXPECT_EQ(*store().QueuePop("n", absl::ZeroDuration()), "element");
}

TEST_P(StoreLaterVerbsConformance, APopOfAnEmptyQueueEndsAtItsDeadlineAndNamesIt) {
  ASSERT_TRUE(store().Set("empty", "a value is no element").ok());
  const absl::Status status = store().QueuePop("empty", kSoon).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("empty'"));
}

TEST_P(StoreLaterVerbsConformance, ThreadsTalkThroughTwoQueues) {
  std::jthread echo([this] {
    for (int i = 0; i < 10; ++i) {
      auto question = store().QueuePop("questions", kPatience);
      ASSERT_TRUE(question.ok()) << question.status();
      ASSERT_TRUE(store().QueuePush("answers", *question + "!").ok());
    }
  });
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(store().QueuePush("questions", absl::StrCat(i)).ok());
    EXPECT_EQ(*store().QueuePop("answers", kPatience), absl::StrCat(i, "!"));
  }
}

TEST_P(StoreLaterVerbsConformance, EachElementGoesToOneOfManyPoppers) {
  constexpr int kThreads = 4, kEach = 10;
  std::vector<std::vector<std::string>> popped(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([this, &mine = popped[t]] {
        for (int i = 0; i < kEach; ++i) mine.push_back(*store().QueuePop("q", kPatience));
      });
    for (int i = 0; i < kThreads * kEach; ++i)
      ASSERT_TRUE(store().QueuePush("q", absl::StrCat(i)).ok());
  }
  std::set<std::string> all;
  for (const auto& mine : popped) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), static_cast<size_t>(kThreads * kEach));
}

TEST_P(StoreConformance, ABarrierLetsAllThroughWhenTheLastHasCome) {
  constexpr int kThreads = 4;
  std::atomic<int> arrived = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      ++arrived;
      ASSERT_TRUE(store().Barrier("b", kThreads, kPatience).ok());
      EXPECT_EQ(arrived, kThreads);
    });
}

TEST_P(StoreConformance, ABarrierTellsHowManyHaveComeAndIsNotReset) {
  const absl::Status early = store().Barrier("b", 2, kSoon);
  EXPECT_EQ(early.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(early.message()), ::testing::HasSubstr("1 of 2"));
  EXPECT_TRUE(store().Barrier("b", 2, absl::ZeroDuration()).ok());
  EXPECT_TRUE(store().Barrier("b", 2, absl::ZeroDuration()).ok());
  EXPECT_EQ(ValueOf("b"), "3");
}

TEST_P(StoreBatchConformance, AWatchSeesEachChangeSinceTheVersionItKnows) {
  ASSERT_TRUE(store().Set("k", "1").ok());
  const auto first = store().Watch("k", 0, kPatience);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->value, "1");
  EXPECT_EQ(store().Watch("k", first->version, kSoon).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  std::jthread changer([this] { ASSERT_TRUE(store().Set("k", "2").ok()); });
  const auto second = store().Watch("k", first->version, kPatience);
  EXPECT_EQ(second->value, "2");
  EXPECT_GT(second->version, first->version);
}

TEST_P(StoreBatchConformance, AWatchSeesADeletion) {
  ASSERT_TRUE(store().Set("k", "1").ok());
  const uint64_t version = store().Watch("k", 0, kPatience)->version;
  ASSERT_TRUE(*store().Delete("k"));
  const auto gone = store().Watch("k", version, kPatience);
  ASSERT_TRUE(gone.ok()) << gone.status();
  EXPECT_EQ(gone->value, std::nullopt);
}

TEST_P(StoreConformance, WhatChangesOrListsCannotBeAwaited) {
  EXPECT_EQ(store().Await({StoreSet{"k", "v"}}, kSoon).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store().Await({StoreList{""}}, kSoon).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ValueOf("k"), "(absent)");
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
