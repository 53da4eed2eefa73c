#include "store/wire/session.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/async_hash_store.h"
#include "store/wire/testing/peer.h"

namespace dp::wire {
namespace {

using ::testing::ElementsAre;

const std::string kZero(1, '\0'), kOne(1, '\1');

TEST(SessionTest, EveryVerbDoesWhatTheProtocolSays) {
  AsyncHashStore store;
  Peer client(store, Dialect::kC);
  client.Ask(Verb::kSet, {"k", "v"});
  client.Ask(Verb::kAppend, {"k", "w"});
  client.Ask(Verb::kMultiSet, {"m", "1", "n", "2"});
  EXPECT_EQ(client.Heard(), "");
  client.Ask(Verb::kGet, {"k"});
  EXPECT_THAT(client.Reply(Verb::kGet).strings, ElementsAre("vw"));
  client.Ask(Verb::kMultiGet, {"m", "gone", "n"});
  EXPECT_THAT(client.Reply(Verb::kMultiGet, 3).strings, ElementsAre("1", "", "2"));
  client.Ask(Verb::kAdd, {"n"}, -5);
  EXPECT_EQ(client.Reply(Verb::kAdd).number, -3);
  client.Ask(Verb::kCompareSet, {"c", "x", "y"});
  EXPECT_THAT(client.Reply(Verb::kCompareSet).strings, ElementsAre("x"));
  client.Ask(Verb::kNumKeys);
  EXPECT_EQ(client.Reply(Verb::kNumKeys).number, 3);
  client.Ask(Verb::kListKeys);
  EXPECT_THAT(client.Reply(Verb::kListKeys).strings, ElementsAre("k", "m", "n"));
  client.Ask(Verb::kCheck, {"k", "gone"});
  EXPECT_EQ(client.Reply(Verb::kCheck).number, kNotReady);
  client.Ask(Verb::kDeleteKey, {"k"});
  EXPECT_EQ(client.Reply(Verb::kDeleteKey).number, 1);
  client.Ask(Verb::kPing, {}, 0xcafe);
  EXPECT_EQ(client.Reply(Verb::kPing).number, 0xcafe);
}

TEST(SessionTest, QueuesAreFirstInFirstOut) {
  AsyncHashStore store;
  Peer client(store, Dialect::kC);
  client.Ask(Verb::kQueuePop, {"q"});
  EXPECT_EQ(client.Reply(Verb::kQueuePop), Fields{});
  client.Ask(Verb::kQueuePush, {"q", "a"});
  client.Ask(Verb::kQueuePush, {"q", "b"});
  client.Ask(Verb::kQueueLen, {"q"});
  EXPECT_EQ(client.Reply(Verb::kQueueLen).number, 2);
  client.Ask(Verb::kWait, {"q"});
  EXPECT_EQ(client.Heard(), kZero);
  client.Ask(Verb::kQueuePop, {"q"});
  EXPECT_EQ(client.Reply(Verb::kQueuePop), (Fields{{"a"}, 2}));
}

TEST(SessionTest, AWaitIsAnsweredWhenItsKeysAreThere) {
  AsyncHashStore store;
  Peer waiter(store, Dialect::kC), setter(store, Dialect::kA);
  waiter.Ask(Verb::kWait, {"a", "b"});
  setter.Ask(Verb::kSet, {"a", "1"});
  EXPECT_EQ(waiter.Heard(), "");
  setter.Ask(Verb::kSet, {"b", "1"});
  EXPECT_EQ(waiter.Heard(), kZero);
}

TEST(SessionTest, ACancelledWaitIsForgottenAndAlwaysConfirmed) {
  AsyncHashStore store;
  Peer client(store, Dialect::kC);
  client.Ask(Verb::kCancelWait);
  EXPECT_EQ(client.Heard(), kOne);
  client.Ask(Verb::kWait, {"gone"});
  client.Ask(Verb::kCancelWait);
  EXPECT_EQ(client.Heard(), kOne);
  EXPECT_EQ(store.waiting(), 0u);
  client.Ask(Verb::kSet, {"gone", "here"});
  EXPECT_EQ(client.Heard(), "");
}

TEST(SessionTest, AnyRequestOfDialectADropsItsParkedWait) {
  AsyncHashStore store;
  Peer client(store, Dialect::kA);
  client.Ask(Verb::kWait, {"late"});
  client.Ask(Verb::kGet, {"other"});
  client.Ask(Verb::kSet, {"late", "v"});
  EXPECT_EQ(client.Heard(), std::string(8, '\0'));
  EXPECT_EQ(store.waiting(), 0u);
}

TEST(SessionTest, AClientThatGoesTakesItsWaitsAlong) {
  AsyncHashStore store;
  {
    Peer client(store, Dialect::kC);
    client.Ask(Verb::kWait, {"gone"});
    client.Ask(Verb::kBarrier, {"b"}, 2);
    EXPECT_EQ(store.waiting(), 2u);
  }
  EXPECT_EQ(store.waiting(), 0u);
}

TEST(SessionTest, ABarrierReleasesAllWhenTheLastArrives) {
  AsyncHashStore store;
  Peer one(store, Dialect::kC), two(store, Dialect::kC);
  one.Ask(Verb::kBarrier, {"b"}, 2);
  EXPECT_EQ(one.Heard(), "");
  two.Ask(Verb::kBarrier, {"b"}, 2);
  EXPECT_EQ(one.Heard(), kZero);
  EXPECT_EQ(two.Heard(), kZero);
  two.Ask(Verb::kGet, {"b"});
  EXPECT_THAT(two.Reply(Verb::kGet).strings, ElementsAre("2"));
}

TEST(SessionTest, AWaitForTheKeyOfABarrierEndsWhenTheFirstArrives) {
  AsyncHashStore store;
  Peer waiter(store, Dialect::kC), one(store, Dialect::kC);
  waiter.Ask(Verb::kWait, {"b"});
  EXPECT_EQ(waiter.Heard(), "");
  one.Ask(Verb::kBarrier, {"b"}, 2);
  EXPECT_EQ(waiter.Heard(), kZero);
  EXPECT_EQ(one.Heard(), "");
}

TEST(SessionTest, WhoStandsAtABarrierIsLetGoByItsCountOrNoNumberButByNoOtherChangeOfItsKey) {
  AsyncHashStore store;
  Peer one(store, Dialect::kC), other(store, Dialect::kC);
  one.Ask(Verb::kBarrier, {"b"}, 13);
  other.Ask(Verb::kSet, {"b", "1"});
  other.Ask(Verb::kAppend, {"b", "1"});
  other.Ask(Verb::kAdd, {"b"}, 1);
  other.Heard();
  EXPECT_EQ(one.Heard(), "");
  other.Ask(Verb::kAdd, {"b"}, 1);
  EXPECT_EQ(one.Heard(), kZero);
  one.Ask(Verb::kBarrier, {"c"}, 2);
  other.Ask(Verb::kSet, {"c", "over"});
  EXPECT_EQ(one.Heard(), kZero);
}

TEST(SessionTest, AWatcherOfDialectAHearsOfEachChange) {
  AsyncHashStore store;
  Peer watcher(store, Dialect::kA), other(store, Dialect::kC);
  watcher.Ask(Verb::kWatchKey, {"wk"});
  EXPECT_EQ(watcher.Heard(), "\3");
  const auto notification = [](int kind, const char* old, const char* now) {
    std::string bytes(1, static_cast<char>(kind));
    for (const char* string : {"wk", old, now}) AppendString(string, &bytes);
    return bytes;
  };
  other.Ask(Verb::kAdd, {"wk"}, 3);
  EXPECT_EQ(watcher.Heard(), notification(kKeyCreated, "", "3"));
  other.Ask(Verb::kSet, {"wk", ""});
  EXPECT_EQ(watcher.Heard(), notification(kKeyUpdated, "3", ""));
  other.Ask(Verb::kDeleteKey, {"wk"});
  EXPECT_EQ(watcher.Heard(), notification(kKeyDeleted, "", ""));
}

TEST(SessionTest, RepliesKeepTheOrderOfTheRequestsWhateverTheStoreDoes) {
  SlowStore store;
  Peer client(store, Dialect::kC);
  client.Ask(Verb::kAdd, {"n"}, 1);
  client.Ask(Verb::kPing, {}, 7);
  client.Ask(Verb::kAdd, {"n"}, 1);
  EXPECT_EQ(client.Heard(), "");
  store.AnswerBackwards();
  std::string expected;
  AppendNumber(1, &expected);
  expected += std::string("\7\0\0\0", 4);
  AppendNumber(2, &expected);
  EXPECT_EQ(client.Heard(), expected);
}

TEST(SessionTest, AnAnswerThatCrossesACancelIsDropped) {
  SlowStore store;
  Peer client(store, Dialect::kC);
  client.Ask(Verb::kSet, {"k", "v"});
  client.Ask(Verb::kWait, {"k"});
  client.Ask(Verb::kCancelWait);
  store.AnswerBackwards();
  EXPECT_EQ(client.Heard(), kOne);
}

TEST(SessionTest, RequestsBeyondWhatMayBeOpenAreHeldBack) {
  SlowStore store;
  Peer client(store, Dialect::kC);
  std::string flood;
  for (int i = 0; i < 200; ++i) AppendRequest(Dialect::kC, {Verb::kAdd, {{"n"}, 1}}, &flood);
  client.Say(flood);
  EXPECT_FALSE(client.session().readable());
  std::string heard;
  for (int rounds = 0; rounds < 10 && heard.size() < 1600; ++rounds) {
    store.AnswerBackwards();
    heard += client.Heard();
    if (!client.session().runnable()) continue;
    ASSERT_TRUE(client.session().Continue().ok());
  }
  ASSERT_EQ(heard.size(), 1600u);
  std::string last;
  AppendNumber(200, &last);
  EXPECT_EQ(heard.substr(1592), last);
}

TEST(SessionTest, AReaderThatDoesNotReadIsNotServedOn) {
  AsyncHashStore store;
  Peer client(store, Dialect::kC);
  client.Ask(Verb::kSet, {"big", std::string(600 << 10, 'x')});
  client.Ask(Verb::kGet, {"big"});
  EXPECT_TRUE(client.session().readable());
  client.Ask(Verb::kGet, {"big"});
  EXPECT_FALSE(client.session().readable());
  client.Heard();
  EXPECT_TRUE(client.session().readable());
}

TEST(SessionTest, AWatcherThatGoesLeavesNothingWaiting) {
  AsyncHashStore store;
  {
    Peer watcher(store, Dialect::kA);
    watcher.Ask(Verb::kWatchKey, {"one"});
    watcher.Ask(Verb::kWatchKey, {"two"});
    watcher.Heard();
    EXPECT_EQ(store.waiting(), 2u);
  }
  EXPECT_EQ(store.waiting(), 0u);
}

TEST(SessionTest, AWatcherThatDoesNotReadHearsOfTheLastChangeWhenItReadsAgain) {
  AsyncHashStore store;
  Peer watcher(store, Dialect::kA), other(store, Dialect::kC);
  watcher.Ask(Verb::kWatchKey, {"wk"});
  watcher.Heard();
  for (int i = 0; i < 4; ++i) {  // two of them fill its output
    other.Ask(Verb::kSet, {"wk", std::string(600 << 10, static_cast<char>('a' + i))});
    watcher.Deliver();
  }
  EXPECT_EQ(store.waiting(), 0u);
  std::string heard;
  for (std::string piece = watcher.Heard(); !piece.empty(); piece = watcher.Heard()) heard = piece;
  EXPECT_EQ(heard.back(), 'd');
  EXPECT_EQ(store.waiting(), 1u);
}

TEST(SessionTest, OneWatchMoreThanAConnectionMayHaveEndsIt) {
  AsyncHashStore store;
  Peer watcher(store, Dialect::kA);
  for (int i = 0; i < 1024; ++i) {
    watcher.Ask(Verb::kWatchKey, {"k" + std::to_string(i)});
    watcher.Heard();
  }
  EXPECT_EQ(watcher.status(), absl::OkStatus());
  watcher.Ask(Verb::kWatchKey, {"one more"});
  EXPECT_EQ(watcher.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(SessionTest, ValuesThatAreWatchedTakeOfTheMemoryForWaitsAndGiveItBack) {
  AsyncHashStore store;
  MessageMemory memory(1000);  // waits may take 4,000
  Peer other(store, Dialect::kC);
  other.Ask(Verb::kSet, {"k", std::string(400, 'v')});
  {
    Peer watcher(store, Dialect::kA, {}, memory);
    watcher.Ask(Verb::kWatchKey, {"k"});
    watcher.Ask(Verb::kWatchKey, {"k"});
    watcher.Heard();
    EXPECT_EQ(memory.taken_for_waits(), 3200u);
    other.Ask(Verb::kSet, {"k", "short"});
    watcher.Heard();
    EXPECT_EQ(memory.taken_for_waits(), 40u);
    EXPECT_EQ(watcher.status(), absl::OkStatus());
    other.Ask(Verb::kSet, {"k", std::string(600, 'v')});
    watcher.Deliver();
    EXPECT_EQ(watcher.status().code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(memory.taken_for_waits(), 0u);
  Peer watcher(store, Dialect::kA, {}, memory);
  watcher.Ask(Verb::kWatchKey, {"k"});
  watcher.Ask(Verb::kWatchKey, {"k"});
  EXPECT_EQ(watcher.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(SessionTest, ABarrierOnAWordEndsTheConnection) {
  AsyncHashStore store;
  Peer client(store, Dialect::kC);
  client.Ask(Verb::kSet, {"b", "word"});
  client.Ask(Verb::kBarrier, {"b"}, 2);
  EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SessionTest, OneValueAtATimeIsOnItsWayToAClientThatAsksForManyAtOnce) {
  SlowStore store;
  Peer client(store, Dialect::kC);
  client.Ask(Verb::kSet, {"k", "value"});
  store.AnswerBackwards();
  std::string gets;
  for (int i = 0; i < 10; ++i) AppendRequest(Dialect::kC, {Verb::kGet, {{"k"}}}, &gets);
  client.Say(gets);
  std::string heard;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(store.unanswered(), 1u);
    EXPECT_FALSE(client.session().readable());
    store.AnswerBackwards();
    heard += client.Heard();
    if (client.session().runnable()) client.GoOn();
  }
  EXPECT_EQ(heard.size(), 10 * (8 + sizeof("value") - 1));
  EXPECT_TRUE(client.session().readable());
}

TEST(SessionTest, RepliesThatWaitForAnEarlierOneAreBounded) {
  AsyncHashStore store;
  Peer client(store, Dialect::kC);
  client.Ask(Verb::kSet, {"big", std::string(600 << 10, 'x')});
  client.Ask(Verb::kWait, {"never"});
  client.Ask(Verb::kGet, {"big"});
  EXPECT_TRUE(client.session().readable());
  client.Ask(Verb::kGet, {"big"});
  EXPECT_FALSE(client.session().readable());
}

TEST(SessionTest, NoRequestIsTakenBehindAReplyThatMayBeAsLongAsAValue) {
  SlowStore store;
  Peer client(store, Dialect::kC);
  const std::pair<Verb, std::vector<std::string>> replies_with_value[] = {
      {Verb::kGet, {"k"}},
      {Verb::kMultiGet, {"k"}},
      {Verb::kCompareSet, {"k", "", "v"}},
      {Verb::kQueuePop, {"q"}},
      {Verb::kListKeys, {}}};
  for (const auto& [verb, strings] : replies_with_value) {
    client.Ask(verb, strings);
    EXPECT_FALSE(client.session().readable()) << NameOf(verb);
    store.AnswerBackwards();
    client.Heard();
    EXPECT_TRUE(client.session().readable()) << NameOf(verb);
  }
  client.Ask(Verb::kQueueLen, {"q"});
  EXPECT_TRUE(client.session().readable());
}

TEST(SessionTest, AMultiGetOfNoKeysIsAnsweredWithoutTheStore) {
  SlowStore store;
  Peer client(store, Dialect::kC);
  client.Ask(Verb::kMultiGet);
  EXPECT_EQ(store.unanswered(), 0u);
  client.Ask(Verb::kPing, {}, 7);
  EXPECT_EQ(client.Reply(Verb::kPing).number, 7);
}

TEST(SessionTest, AMultiGetOfMuchIsSentAsItIsRead) {
  AsyncHashStore store;
  Peer client(store, Dialect::kC);
  client.Ask(Verb::kSet, {"big", std::string(1 << 20, 'x')});
  client.Ask(Verb::kMultiGet, std::vector<std::string>(100, "big"));
  size_t heard = 0, most = 0;
  for (size_t piece = 1; piece > 0; heard += piece) {
    piece = client.Heard().size();
    most = std::max(most, piece);
  }
  EXPECT_EQ(heard, 100 * (8 + (size_t{1} << 20)));
  EXPECT_LE(most, size_t{20} << 20);
}

TEST(SessionTest, AMultiGetWhoseLaterValuesAreMuchLongerIsReadInSmallerParts) {
  constexpr size_t kBig = size_t{4} << 20, kBigs = 20;
  AsyncHashStore store;
  Peer client(store, Dialect::kC);
  client.Ask(Verb::kSet, {"small", "1"});
  client.Ask(Verb::kSet, {"big", std::string(kBig, 'x')});
  std::vector<std::string> keys(100, "small");
  keys.insert(keys.end(), kBigs, "big");
  client.Ask(Verb::kMultiGet, keys);
  std::string heard;
  size_t most = 0;
  for (std::string piece = client.Heard(); !piece.empty(); piece = client.Heard()) {
    most = std::max(most, piece.size());
    heard += piece;
  }
  EXPECT_EQ(client.status(), absl::OkStatus());
  EXPECT_EQ(heard.size(), 100 * (8 + 1) + kBigs * (8 + kBig));
  EXPECT_EQ(heard[8], '1');
  EXPECT_EQ(heard.back(), 'x');
  EXPECT_LE(most, size_t{33} << 20);
}

TEST(SessionTest, AnAddToAWordEndsTheConnection) {
  AsyncHashStore store;
  Peer client(store, Dialect::kC);
  client.Ask(Verb::kSet, {"k", "word"});
  client.Ask(Verb::kAdd, {"k"}, 1);
  EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace dp::wire
