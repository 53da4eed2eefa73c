#include "store/async_hash_store.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AsyncHashStoreTest : public ::testing::Test {
 protected:
  void Do(StoreOperation operation) {
    store_.Execute({std::move(operation)}, [](AsyncStore::Results results) {
      EXPECT_TRUE(results.ok()) << results.status();
    });
  }
  // Records `name` once the wait is answered.
  AsyncStore::Ticket Await(const std::string& name, std::vector<StoreOperation> reads) {
    return store_.Await(std::move(reads), [this, name](AsyncStore::Results results) {
      told_.push_back(results.ok() ? name : absl::StrCat(name, ": ", results.status().message()));
    });
  }
  std::vector<std::string> Told() { return std::exchange(told_, {}); }

  AsyncHashStore store_;
  std::vector<std::string> told_;
};

TEST_F(AsyncHashStoreTest, AWaitIsAnsweredOnceAllOfItHasBeenThere) {
  Await("both", {StoreCheck{{"a"}}, StoreCheck{{"b"}}});
  Do(StoreSet{"a", "1"});
  Do(StoreDelete{"a"});
  EXPECT_THAT(Told(), IsEmpty());
  Do(StoreAppend{"b", "2"});
  EXPECT_THAT(Told(), ElementsAre("both"));
  EXPECT_EQ(store_.waiting(), 0u);
}

TEST_F(AsyncHashStoreTest, WhatIsThereAlreadyIsAnsweredAtOnce) {
  Do(StoreSet{"a", "1"});
  Await("a", {StoreGet{"a"}});
  Await("nothing", {});
  EXPECT_THAT(Told(), ElementsAre("a", "nothing"));
}

TEST_F(AsyncHashStoreTest, ReadsWhoseAnswerWouldBeTooLongAreRefused) {
  Do(StoreSet{"big", std::string(size_t{8} << 20, 'x')});
  const auto read = [this](size_t times) {
    absl::Status status;
    store_.Execute(std::vector<StoreOperation>(times, StoreGet{"big"}),
                   [&](const AsyncStore::Results& results) { status = results.status(); });
    return status.code();
  };
  EXPECT_EQ(read(3), absl::StatusCode::kOk);
  EXPECT_EQ(read(4), absl::StatusCode::kResourceExhausted);
}

TEST_F(AsyncHashStoreTest, ACancelledWaitSaysSoAndLeavesNothingBehind) {
  const AsyncStore::Ticket ticket = Await("w", {StoreCheck{{"a", "b"}}, StoreGet{"a"}});
  store_.Cancel(ticket);
  store_.Cancel(ticket);
  EXPECT_THAT(Told(), ElementsAre("w: wait was cancelled"));
  Do(StoreSet{"a", "1"});
  Do(StoreSet{"b", "1"});
  EXPECT_THAT(Told(), IsEmpty());
}

TEST_F(AsyncHashStoreTest, AnElementOfAQueueWakesTheOneThatWaitedLongest) {
  Await("first", {StoreCheck{{"q"}}});
  Await("second", {StoreQueueLength{"q"}});
  Await("third", {StoreCheck{{"q"}}});
  Do(StoreQueuePush{"q", "x"});
  EXPECT_THAT(Told(), ElementsAre("first"));
  Do(StoreQueuePush{"q", "y"});
  EXPECT_THAT(Told(), ElementsAre("second"));
  Do(StoreQueuePop{"q"});
  EXPECT_THAT(Told(), IsEmpty());
  Do(StoreSet{"q", "a value wakes all"});
  EXPECT_THAT(Told(), ElementsAre("third"));
}

TEST_F(AsyncHashStoreTest, ABarrierIsReachedByItsLastArrival) {
  Do(StoreAdd{"b", 1});
  Await("one", {StoreReached{"b", 2}});
  EXPECT_THAT(Told(), IsEmpty());
  Do(StoreAdd{"b", 1});
  EXPECT_THAT(Told(), ElementsAre("one"));
}

TEST_F(AsyncHashStoreTest, OnlyReadsCanBeAwaited) {
  Await("add", {StoreAdd{"n", 1}});
  Await("list", {StoreList{}});
  EXPECT_THAT(Told(), ElementsAre(::testing::StartsWith("add: "), ::testing::StartsWith("list: ")));
  EXPECT_EQ(store_.waiting(), 0u);
}

}  // namespace
}  // namespace dp
