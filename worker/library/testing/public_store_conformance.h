#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dp/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/thrown.h"

// The contract of every public store: each verb and each of its errors. The tree's own suite
// (store/testing/store_conformance.h) tests the stores below; this one what a program sees of them.
//
//   INSTANTIATE_TEST_SUITE_P(, PublicStoreConformance, ::testing::Values(PublicStore{"Hash",
//   OpenHash}),
//                            [](const auto& info) { return info.param.name; });

namespace dp::distributed {

// A kind of store. `open` returns an empty one, whose handles own what it needs.
struct PublicStore {
  const char* name;
  Store (*open)();
};

class PublicStoreConformance : public ::testing::TestWithParam<PublicStore> {
 protected:
  std::string ValueOf(const std::string& key) const {
    const std::vector<std::string> keys = {key};
    return store_.check(keys) ? store_.get(key) : "(absent)";
  }
  // The message of the timeout that `call` throws.
  static std::string TimeoutOf(const std::function<void()>& call) {
    const DistError error = library::ErrorOf(call);
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_THAT(error.missing_ranks(), ::testing::IsEmpty());
    return error.what();
  }

  Store store_ = GetParam().open();
};

TEST_P(PublicStoreConformance, SetOverwritesAndAppendAddsBytes) {
  store_.set("k", "other");
  store_.set("k", "one");
  store_.append("k", ", two");
  store_.append("fresh", "v");
  EXPECT_EQ(store_.get("k"), "one, two");
  EXPECT_EQ(store_.get("fresh"), "v");
}

TEST_P(PublicStoreConformance, KeysAndValuesAreBytes) {
  const std::string key("-k\0\xff", 4), value("\0\n\x80", 3);
  store_.set(key, value);
  store_.set("", "");
  EXPECT_EQ(store_.get(key), value);
  EXPECT_EQ(store_.get(""), "");
}

TEST_P(PublicStoreConformance, CompareSetAnswersTheValueAfterwards) {
  EXPECT_EQ(store_.compare_set("k", "other", "new"), "other");
  EXPECT_EQ(ValueOf("k"), "(absent)");
  EXPECT_EQ(store_.compare_set("k", "", "first"), "first");
  EXPECT_EQ(store_.compare_set("k", "wrong", "second"), "first");
  EXPECT_EQ(store_.compare_set("k", "first", "second"), "second");
}

TEST_P(PublicStoreConformance, DeleteSaysWhetherTheKeyWasThere) {
  store_.set("k", "v");
  EXPECT_TRUE(store_.delete_key("k"));
  EXPECT_FALSE(store_.delete_key("k"));
  EXPECT_EQ(ValueOf("k"), "(absent)");
}

TEST_P(PublicStoreConformance, SeveralKeysAtOnce) {
  const std::vector<std::pair<std::string, std::string>> pairs = {{"a", "1"}, {"b", "2"}};
  const std::vector<std::string> keys = {"b", "a", "b"}, unknown = {"a", "c"}, none;
  store_.multi_set(pairs);
  EXPECT_THAT(store_.multi_get(keys), ::testing::ElementsAre("2", "1", "2"));
  EXPECT_THAT(store_.multi_get(none), ::testing::IsEmpty());
  store_.wait(keys);
  store_.wait(none);
  EXPECT_TRUE(store_.check(keys));
  EXPECT_TRUE(store_.check(none));
  EXPECT_FALSE(store_.check(unknown));
}

TEST_P(PublicStoreConformance, ListsHaveValuesOnlyAndAreSorted) {
  EXPECT_EQ(store_.num_keys(), 0);
  EXPECT_THAT(store_.list_keys(), ::testing::IsEmpty());
  store_.set("b", "");
  store_.set("a", "");
  store_.queue_push("q", "v");
  EXPECT_EQ(store_.num_keys(), 2);
  EXPECT_THAT(store_.list_keys(), ::testing::ElementsAre("a", "b"));
}

TEST_P(PublicStoreConformance, NumbersAreAddedAsText) {
  EXPECT_EQ(store_.add("n", 2), 2);
  EXPECT_EQ(store_.add("n", -5), -3);
  EXPECT_EQ(store_.get("n"), "-3");
  store_.set("n", "40");
  EXPECT_EQ(store_.add("n", 2), 42);
}

TEST_P(PublicStoreConformance, AddingToAWordIsTheCallersFaultAndChangesNothing) {
  store_.set("word", "x");
  EXPECT_EQ(library::ErrorOf([&] { store_.add("word", 1); }).kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(store_.get("word"), "x");
}

TEST_P(PublicStoreConformance, AddsOfManyThreadsAreAllCounted) {
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([store = store_] {
        for (int i = 0; i < 25; ++i) store.add("n", 1);
      });
  }
  EXPECT_EQ(store_.add("n", 0), 100);
}

TEST_P(PublicStoreConformance, QueuesAreFirstInFirstOut) {
  const std::vector<std::string> name = {"q"};
  EXPECT_EQ(store_.queue_len("q"), 0);
  EXPECT_EQ(store_.queue_push("q", "one"), 1);
  EXPECT_EQ(store_.queue_push("q", ""), 2);
  EXPECT_TRUE(store_.check(name));
  EXPECT_EQ(store_.queue_pop("q"), "one");
  EXPECT_EQ(store_.queue_pop("q"), "");
  EXPECT_FALSE(store_.check(name));
  EXPECT_EQ(store_.queue_len("q"), 0);
}

TEST_P(PublicStoreConformance, AQueueAndAValueOfOneNameDoNotTouchEachOther) {
  store_.queue_push("n", "element");
  store_.set("n", "value");
  EXPECT_TRUE(store_.delete_key("n"));
  EXPECT_EQ(store_.queue_pop("n"), "element");
}

TEST_P(PublicStoreConformance, EachElementGoesToOneCaller) {
  std::vector<std::vector<std::string>> popped(3);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : popped)
      threads.emplace_back([store = store_, &mine] {
        for (int i = 0; i < 5; ++i) mine.push_back(store.queue_pop("q"));
      });
    for (int i = 0; i < 15; ++i) store_.queue_push("q", std::string(1, static_cast<char>('a' + i)));
  }
  std::string all;
  for (const auto& mine : popped)
    for (const std::string& element : mine) all += element;
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, "abcdefghijklmno");
}

TEST_P(PublicStoreConformance, EveryVerbThatSetsAKeyWakesWhoWaitsForIt) {
  const std::vector<std::string> keys = {"set", "append", "add", "compare", "multi", "queue"};
  std::jthread setter([store = store_] {
    store.set("set", "");
    store.append("append", "");
    store.add("add", 1);
    store.compare_set("compare", "", "v");
    store.multi_set(std::vector<std::pair<std::string, std::string>>{{"multi", ""}});
    store.queue_push("queue", "");
  });
  store_.wait(keys);
  EXPECT_TRUE(store_.check(keys));
}

TEST_P(PublicStoreConformance, ATimeoutNamesTheKeysThatAreMissing) {
  const std::vector<std::string> keys = {"here", "gone", "lost"};
  store_.set("here", "v");
  const std::string said = TimeoutOf([&] { store_.wait(keys, std::chrono::milliseconds(20)); });
  EXPECT_THAT(said, ::testing::HasSubstr("gone"));
  EXPECT_THAT(said, ::testing::HasSubstr("lost"));
  EXPECT_THAT(said, ::testing::Not(::testing::HasSubstr("here")));
  store_.set_timeout(std::chrono::milliseconds(20));
  EXPECT_THAT(TimeoutOf([&] { store_.wait(keys); }),
              ::testing::HasSubstr("still missing after 20ms"));
  EXPECT_THAT(TimeoutOf([&] { store_.multi_get(keys); }),
              ::testing::HasSubstr("still missing after 20ms"));
  EXPECT_THAT(TimeoutOf([&] { store_.get("gone"); }), ::testing::HasSubstr("gone"));
  EXPECT_THAT(TimeoutOf([&] { store_.queue_pop("here"); }), ::testing::HasSubstr("here"));
}

TEST_P(PublicStoreConformance, ATimeoutOfZeroLooksOnce) {
  const std::vector<std::string> keys = {"k"};
  EXPECT_EQ(library::ErrorOf([&] { store_.wait(keys, std::chrono::milliseconds(0)); }).kind(),
            ErrorKind::kTimeout);
  store_.set("k", "v");
  store_.wait(keys, std::chrono::milliseconds(0));
  store_.set_timeout(std::chrono::milliseconds(0));
  EXPECT_EQ(store_.get("k"), "v");
}

TEST_P(PublicStoreConformance, CopiesNameTheSameStoreAndKeepItAlive) {
  std::optional<Store> first = store_;
  const Store second = *first;
  first->set("k", "v");
  first->set_timeout(std::chrono::milliseconds(9));
  const Store third = *first;
  first.reset();
  store_ = HashStore();
  EXPECT_EQ(second.get("k"), "v");
  EXPECT_EQ(second.timeout(), Store::kTimeout);
  EXPECT_EQ(third.timeout(), std::chrono::milliseconds(9));
}

TEST_P(PublicStoreConformance, APrefixSeparatesKeysListsAndQueues) {
  const PrefixStore a("a", store_), b("b", store_);
  a.set("k", "of a");
  b.set("k", "of b");
  a.queue_push("q", "of a");
  EXPECT_EQ(a.get("k"), "of a");
  EXPECT_EQ(store_.get("b/k"), "of b");
  EXPECT_THAT(a.list_keys(), ::testing::ElementsAre("k"));
  EXPECT_EQ(a.num_keys(), 1);
  EXPECT_EQ(b.queue_len("q"), 0);
  EXPECT_EQ(store_.num_keys(), 2);
}

}  // namespace dp::distributed
