#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/async_hash_store.h"
#include "store/wire/message_memory.h"
#include "store/wire/testing/peer.h"

// Sessions share memory: how much they hold, and how they wait for more.

namespace dp::wire {
namespace {

// Limits that a test can exhaust.
RequestOptions SmallMessages() {
  RequestOptions options;
  options.limits.message_bytes = 1000;
  return options;
}

TEST(SessionMemoryTest, BytesInTheStoresHandsAreBoundedAndGivenBackWithTheAnswer) {
  SlowStore store;
  Peer client(store, Dialect::kC, SmallMessages());
  for (int round = 0; round < 3; ++round) {
    client.Ask(Verb::kSet, {"k", std::string(600, 'x')});
    EXPECT_TRUE(client.session().readable());
    client.Ask(Verb::kSet, {"k", std::string(600, 'y')});
    EXPECT_FALSE(client.session().readable());
    store.AnswerBackwards();
    client.Deliver();
    EXPECT_TRUE(client.session().readable());
  }
}

TEST(SessionMemoryTest, KeysThatAreAwaitedAreBoundedAndGivenBackWhenTheWaitIsCancelled) {
  AsyncHashStore store;
  Peer client(store, Dialect::kC, SmallMessages());
  for (int round = 0; round < 3; ++round) {
    client.Ask(Verb::kWait, {std::string(600, 'a')});
    EXPECT_TRUE(client.session().readable());
    client.Ask(Verb::kCancelWait);
    EXPECT_EQ(client.Heard(), "\1");
  }
  client.Ask(Verb::kWait, {std::string(600, 'a')});
  client.Ask(Verb::kWait, {std::string(600, 'b')});
  EXPECT_FALSE(client.session().readable());
}

// A set with a value of this many bytes, without the last one.
std::string OneByteShort(size_t bytes) {
  std::string set;
  AppendRequest(Dialect::kC, {Verb::kSet, {{"k", std::string(bytes, 'x')}}}, &set);
  set.pop_back();
  return set;
}

constexpr size_t kMiB = size_t{1} << 20;

TEST(SessionMemoryTest, ARequestIsReadOnceThereIsMemoryForAllThatItAnnounces) {
  AsyncHashStore store;
  MessageMemory memory(3 * kMiB);
  Peer one(store, Dialect::kC, {}, memory), two(store, Dialect::kC, {}, memory);
  one.Say(OneByteShort(2 * kMiB));
  EXPECT_GE(memory.taken(), 2 * kMiB);
  two.Say(OneByteShort(2 * kMiB).substr(0, 100));
  EXPECT_FALSE(two.session().readable());
  EXPECT_FALSE(two.session().runnable());
  EXPECT_LE(memory.taken(), 3 * kMiB);
  one.Say("x");
  one.Deliver();  // the store has taken the value
  two.Deliver();
  EXPECT_TRUE(two.session().runnable());
  ASSERT_TRUE(two.session().Continue().ok());
  two.Say(OneByteShort(2 * kMiB).substr(100) + "x");
  two.Deliver();
  EXPECT_EQ(memory.taken(), 0u);
}

TEST(SessionMemoryTest, WhatClientsSendAheadOfTheAnswersMakesReadsShortUntilItIsGone) {
  SlowStore store;
  MessageMemory memory(4 * kMiB);  // a quarter of it may be read ahead
  std::string gets;
  for (int i = 0; i < 4000; ++i) AppendRequest(Dialect::kC, {Verb::kGet, {{"key"}}}, &gets);
  std::vector<std::unique_ptr<Peer>> peers;
  while (!memory.spares()) {
    ASSERT_LT(peers.size(), 40u);
    peers.push_back(std::make_unique<Peer>(store, Dialect::kC, RequestOptions(), memory));
    peers.back()->Say(gets);
  }
  EXPECT_GT(peers.size(), 20u);
  EXPECT_FALSE(memory.short_of_memory());
  for (auto& peer : peers) {
    while (!peer->session().readable()) {
      store.AnswerBackwards();
      peer->Heard();
      if (peer->session().runnable()) peer->GoOn();
    }
  }
  EXPECT_FALSE(memory.spares());
  for (auto& peer : peers) peer->Say(gets);
  EXPECT_TRUE(memory.spares());
  peers.clear();
  EXPECT_FALSE(memory.spares());
}

TEST(SessionMemoryTest, ShortRequestsNeverWaitForMemory) {
  AsyncHashStore store;
  MessageMemory memory(kMiB);
  Peer large(store, Dialect::kC, {}, memory), small(store, Dialect::kC, {}, memory);
  large.Say(OneByteShort(kMiB - 1000));
  Peer waiting(store, Dialect::kC, {}, memory);
  waiting.Say(OneByteShort(kMiB / 2));
  EXPECT_TRUE(memory.short_of_memory());
  small.Ask(Verb::kSet, {"k", std::string(4000, 'v')});
  small.Ask(Verb::kGet, {"k"});
  EXPECT_EQ(small.Reply(Verb::kGet).strings[0].size(), 4000u);
}

TEST(SessionMemoryTest, AClientThatGoesGivesItsMemoryBackWhetherItHasItOrWaitsForIt) {
  AsyncHashStore store;
  MessageMemory memory(3 * kMiB);
  auto one = std::make_unique<Peer>(store, Dialect::kC, RequestOptions(), memory);
  auto two = std::make_unique<Peer>(store, Dialect::kC, RequestOptions(), memory);
  auto three = std::make_unique<Peer>(store, Dialect::kC, RequestOptions(), memory);
  for (Peer* peer : {one.get(), two.get(), three.get()}) peer->Say(OneByteShort(2 * kMiB));
  two.reset();  // it waits
  one.reset();  // now three has memory, but does not know yet
  three.reset();
  EXPECT_EQ(memory.taken(), 0u);
  EXPECT_FALSE(memory.short_of_memory());
}

TEST(SessionMemoryTest, MemoryIsHeldUntilTheStoreHasAnswered) {
  SlowStore store;
  MessageMemory memory(3 * kMiB);
  Peer client(store, Dialect::kC, {}, memory);
  client.Say(OneByteShort(2 * kMiB) + "x");
  EXPECT_GE(memory.taken(), 2 * kMiB - 8192);
  client.Say(OneByteShort(2 * kMiB));
  EXPECT_FALSE(client.session().readable());
  store.AnswerBackwards();
  client.Deliver();
  EXPECT_TRUE(client.session().runnable());
}

// A request of this many strings of this length.
std::string RequestOf(Verb verb, size_t strings, size_t bytes) {
  std::string request;
  const std::vector<std::string> all(strings, std::string(bytes, 'k'));
  AppendRequest(Dialect::kC, {verb, {all}}, &request);
  return request;
}

// Clients that share the memory and send their requests piece by piece, as sockets bring them.
class SharedMemoryTest : public ::testing::Test {
 protected:
  static constexpr size_t kPiece = size_t{16} << 10;
  struct Client {
    std::unique_ptr<Peer> peer;
    std::string unsent;
  };

  RequestOptions Options() const {
    RequestOptions options;
    options.limits.message_bytes = memory_.whole_max() - (size_t{64} << 10);
    return options;
  }
  void Begin(std::string request) {
    clients_.push_back(
        {std::make_unique<Peer>(store_, Dialect::kC, Options(), memory_), std::move(request)});
  }
  // Every client whose session reads sends a piece of its request. Returns whether any made
  // progress.
  bool Turn() {
    bool went_on = false;
    for (Client& client : clients_) {
      client.peer->Deliver();
      Session& session = client.peer->session();
      const bool runs = session.runnable();
      const bool reads = session.readable() && !client.unsent.empty();
      if (runs) {
        client.peer->GoOn();
      } else if (reads) {
        client.peer->Say(client.unsent.substr(0, kPiece));
        client.unsent.erase(0, kPiece);
      }
      went_on |= reads || runs;
      EXPECT_EQ(client.peer->status(), absl::OkStatus());
      EXPECT_LE(memory_.taken(), memory_.bytes_max());
    }
    return went_on;
  }
  size_t unsent() const {
    size_t bytes = 0;
    for (const Client& client : clients_) bytes += client.unsent.size();
    return bytes;
  }

  AsyncHashStore store_;
  MessageMemory memory_{kMiB};
  std::vector<Client> clients_;
};

TEST_F(SharedMemoryTest, RequestsThatHoldPartOfTheMemoryEachAllEndInSomeOrder) {
  for (int i = 0; i < 30; ++i) Begin(RequestOf(Verb::kMultiSet, 20, 5000));
  while (Turn()) {
  }
  EXPECT_EQ(unsent(), 0u);
  EXPECT_EQ(memory_.taken(), 0u);
}

TEST_F(SharedMemoryTest, WaitsHoldNoneOfTheMemoryThatASetNeeds) {
  for (int i = 0; i < 20; ++i) Begin(RequestOf(Verb::kWait, 1000, 40));
  while (Turn()) {
  }
  EXPECT_EQ(store_.waiting(), 20u);
  EXPECT_EQ(memory_.taken(), 0u);
  EXPECT_GT(memory_.taken_for_waits(), memory_.bytes_max());
  Peer setter(store_, Dialect::kC, Options(), memory_);
  setter.Ask(Verb::kSet, {std::string(40, 'k'), std::string(100'000, 'v')});
  for (Client& client : clients_) EXPECT_EQ(client.peer->Heard(), std::string(1, '\0'));
  EXPECT_EQ(memory_.taken_for_waits(), 0u);
}

TEST_F(SharedMemoryTest, AWaitGivesItsRoomBackOnce) {
  Begin(RequestOf(Verb::kWait, 1000, 40));
  while (Turn()) {
  }
  const size_t of_another = memory_.taken_for_waits();
  EXPECT_GT(of_another, 0u);
  Peer client(store_, Dialect::kC, Options(), memory_);
  client.Say(RequestOf(Verb::kWait, 100, 1000));
  EXPECT_GT(memory_.taken_for_waits(), of_another);
  client.Ask(Verb::kCancelWait);
  EXPECT_EQ(memory_.taken_for_waits(), of_another);
  client.Ask(Verb::kSet, {"k", "v"});
  client.Deliver();
  EXPECT_EQ(memory_.taken_for_waits(), of_another);
}

TEST_F(SharedMemoryTest, AWaitBeyondTheRoomForWaitsEndsItsConnectionAndNoOther) {
  const std::string wait = RequestOf(Verb::kWait, 400, 1000);
  for (size_t bytes = 0; bytes + wait.size() < memory_.waits_max(); bytes += wait.size())
    Begin(wait);
  while (Turn()) {
  }
  {
    Peer refused(store_, Dialect::kC, Options(), memory_);
    refused.Say(wait);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  }
  Peer small(store_, Dialect::kC, Options(), memory_);
  small.Ask(Verb::kWait, {"short"});
  EXPECT_EQ(small.status(), absl::OkStatus());
  clients_.clear();
  EXPECT_EQ(memory_.taken_for_waits(), 0u);
}

TEST_F(SharedMemoryTest, ARequestThatWaitsForMemoryIsNotDelayedByItsClient) {
  const std::string wait = RequestOf(Verb::kWait, 50, 8000);
  Peer client(store_, Dialect::kC, Options(), memory_);
  client.Say(wait.substr(0, 50'000));
  EXPECT_NE(client.session().unfinished(), 0u);
  for (int i = 0; i < 2; ++i) Begin(OneByteShort(424'000));
  while (Turn()) {
  }
  client.Say(wait.substr(50'000, 100'000));
  EXPECT_TRUE(memory_.short_of_memory());
  EXPECT_EQ(client.session().unfinished(), 0u);
  clients_.clear();
  client.Deliver();
  EXPECT_NE(client.session().unfinished(), 0u);
}

}  // namespace
}  // namespace dp::wire
