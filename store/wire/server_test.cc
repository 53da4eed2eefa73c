#include "store/wire/server.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "base/bounded_queue.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/async_hash_store.h"
#include "store/wire/testing/spoken_client.h"

namespace dp::wire {
namespace {

// Answers on a thread of its own, as the coordinator and the relay do.
class ElsewhereStore : public AsyncStore {
 public:
  void Execute(std::vector<StoreOperation> operations, Done done) override {
    Do([this, operations = std::move(operations), done = std::move(done)]() mutable {
      store_.Execute(std::move(operations), std::move(done));
    });
  }
  Ticket Await(std::vector<StoreOperation> reads, Done done, const std::string&) override {
    const uint64_t ticket = ++last_ticket_;
    Do([this, ticket, reads = std::move(reads), done = std::move(done)]() mutable {
      tickets_[ticket] = store_.Await(std::move(reads), std::move(done));
    });
    return Ticket(ticket);
  }
  void Cancel(Ticket ticket) override {
    Do([this, ticket] { store_.Cancel(tickets_[ticket.value()]); });
  }
  ~ElsewhereStore() override { calls_.Close(); }

 private:
  using Call = absl::AnyInvocable<void() &&>;

  void Do(Call call) { EXPECT_TRUE(calls_.TryPush(call)); }

  AsyncHashStore store_;
  std::atomic<uint64_t> last_ticket_{0};
  absl::flat_hash_map<uint64_t, Ticket> tickets_;  // used by thread_ only
  BoundedQueue<Call> calls_{1 << 20};
  std::jthread thread_{[this] {
    for (bool open = true; open;) {
      open = !calls_.closed();
      for (Call& call : calls_.DrainFor(kWirePatience)) std::move(call)();
    }
  }};
};

class ServerTest : public ::testing::Test {
 protected:
  void Start(const std::string& host, const RequestOptions& requests = {}) {
    auto server = Server::Start(store_, {.host = host, .requests = requests});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void SetUp() override { Start("127.0.0.1"); }
  SpokenClient Connected(Dialect dialect = Dialect::kC) {
    return SpokenClient(dialect, server_->port());
  }

  AsyncHashStore store_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, ClientsOfEveryDialectShareOnePortAndItsKeys) {
  SpokenClient a = Connected(Dialect::kA), b = Connected(Dialect::kB), c = Connected(Dialect::kC);
  a.Ask(Verb::kAdd, {"n"}, 1);
  EXPECT_EQ(a.Reply(Verb::kAdd).number, 1);
  b.Ask(Verb::kCancelWait);
  EXPECT_EQ(b.Reply(Verb::kCancelWait).number, kWaitCanceled);
  b.Ask(Verb::kAdd, {"n"}, 1);
  EXPECT_EQ(b.Reply(Verb::kAdd).number, 2);
  c.Ask(Verb::kPing, {}, 99);
  EXPECT_EQ(c.Reply(Verb::kPing).number, 99);
  EXPECT_EQ(c.Get("n"), "2");
}

TEST_F(ServerTest, ARequestMayComeByteByByte) {
  SpokenClient client = Connected();
  std::string bytes;
  AppendRequest(Dialect::kC, {Verb::kSet, {{"key", "value"}}}, &bytes);
  for (const char byte : bytes) client.Say(std::string(1, byte));
  EXPECT_EQ(client.Get("key"), "value");
}

TEST_F(ServerTest, AWaitIsAnsweredThroughAnotherConnection) {
  SpokenClient waiter = Connected(), setter = Connected();
  waiter.Ask(Verb::kWait, {"k"});
  setter.Ask(Verb::kMultiSet, {"j", "1", "k", "2"});
  EXPECT_EQ(waiter.Reply(Verb::kWait).number, kStopWaiting);
  EXPECT_EQ(waiter.Get("k"), "2");
}

TEST_F(ServerTest, WhatCannotBeFollowedIsClosedAfterWhatWasAsked) {
  SpokenClient good = Connected(), bad = Connected();
  std::string bytes;
  AppendRequest(Dialect::kC, {Verb::kAdd, {{"n"}, 1}}, &bytes);
  bad.Say(bytes + "\x63");
  EXPECT_EQ(bad.Reply(Verb::kAdd).number, 1);
  EXPECT_TRUE(bad.Closed());
  EXPECT_EQ(good.Get("n"), "1");
}

TEST_F(ServerTest, AKeyBeyondTheLimitIsClosedBeforeItsBytesCome) {
  SpokenClient client = Connected();
  std::string bytes("\x03");
  AppendNumber(8193, &bytes);
  client.Say(bytes);
  EXPECT_TRUE(client.Closed());
}

TEST_F(ServerTest, ALargeValueGoesThroughInBothDirections) {
  SpokenClient client = Connected();
  const std::string value(size_t{8} << 20, 'v');
  client.Ask(Verb::kSet, {"k", value});
  EXPECT_EQ(client.Get("k"), value);
}

TEST_F(ServerTest, AReaderThatDoesNotReadStopsOnlyItself) {
  SpokenClient deaf = Connected(), other = Connected();
  other.Ask(Verb::kSet, {"k", std::string(size_t{1} << 20, 'v')});
  EXPECT_EQ(other.Get("none"), "");  // by now "k" is set
  constexpr int kGets = 200;
  for (int i = 0; i < kGets; ++i) deaf.Ask(Verb::kGet, {"k"});
  other.Ask(Verb::kSet, {"small", "v"});
  EXPECT_EQ(other.Get("small"), "v");
  for (int i = 0; i < kGets; ++i) ASSERT_EQ(deaf.Reply(Verb::kGet).strings[0].size(), 1u << 20);
}

TEST_F(ServerTest, AFloodOnOneConnectionDoesNotStarveAnother) {
  std::atomic<bool> done = false;
  std::jthread flood([&] {
    SpokenClient client = Connected();
    std::string sets;
    for (int i = 0; i < 1000; ++i)
      AppendRequest(Dialect::kC, {Verb::kSet, {{"flood", "v"}}}, &sets);
    while (!done) client.Say(sets);
  });
  SpokenClient client = Connected();
  for (int i = 1; i <= 100; ++i) {
    client.Ask(Verb::kAdd, {"n"}, 1);
    ASSERT_EQ(client.Reply(Verb::kAdd).number, i);
  }
  done = true;
}

TEST_F(ServerTest, ItsEndIsTheEndOfEveryConnection) {
  SpokenClient waiting = Connected(), silent = Connected(Dialect::kA);
  waiting.Ask(Verb::kWait, {"never"});
  waiting.Ask(Verb::kPing, {}, 1);
  EXPECT_EQ(silent.Get("k"), "");  // by now the server has all requests
  server_.reset();
  EXPECT_TRUE(waiting.Closed());
  EXPECT_TRUE(silent.Closed());
  EXPECT_EQ(store_.waiting(), 0u);
}

TEST_F(ServerTest, ListensOnBothFamiliesWhenNoHostIsNamed) {
  Start("");
  EXPECT_EQ(SpokenClient(Dialect::kC, server_->port(), "127.0.0.1").Get("k"), "");
  auto v6 = Connect("::1", server_->port(), kWirePatience);
  if (!v6.ok()) GTEST_SKIP() << "no IPv6 here: " << v6.status();
  EXPECT_EQ(SpokenClient(Dialect::kC, server_->port(), "::1").Get("k"), "");
}

TEST_F(ServerTest, ATakenPortSaysSo) {
  const auto second = Server::Start(store_, {.host = "127.0.0.1", .port = server_->port()});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(ServerTest, ServesOnASocketThatItIsGiven) {
  auto listener = Listen("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());
  auto server = Server::StartOn(*std::move(listener), store_, {});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(SpokenClient(Dialect::kA, (*server)->port()).Get("k"), "");
}

TEST_F(ServerTest, AClientThatIsNotAdmittedIsDisconnectedAndOthersAreServed) {
  int asked = 0;
  auto server = Server::Start(
      store_, {.host = "127.0.0.1", .admit = [&asked](int) {
                 return ++asked == 1 ? absl::PermissionDeniedError("a stranger") : absl::OkStatus();
               }});
  ASSERT_TRUE(server.ok()) << server.status();
  SpokenClient stranger(Dialect::kA, (*server)->port());
  EXPECT_TRUE(stranger.Closed());
  EXPECT_EQ(SpokenClient(Dialect::kC, (*server)->port()).Get("k"), "");
}

TEST(ServerElsewhereTest, ManyClientsOfAStoreThatAnswersOnOtherThreadsCountTogether) {
  constexpr int kClients = 8, kAdds = 100;
  ElsewhereStore store;
  auto server = Server::Start(store, {.host = "127.0.0.1"});
  ASSERT_TRUE(server.ok()) << server.status();
  const uint16_t port = (*server)->port();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kClients; ++t)
      threads.emplace_back([port] {
        SpokenClient client(Dialect::kC, port);
        for (int i = 0; i < kAdds; ++i) {
          client.Ask(Verb::kSet, {"last", "v"});
          client.Ask(Verb::kAdd, {"n"}, 1);
          ASSERT_GT(client.Reply(Verb::kAdd).number, 0);
        }
        client.Ask(Verb::kBarrier, {"end"}, kClients);
        EXPECT_EQ(client.Reply(Verb::kBarrier).number, kStopWaiting);
      });
  }
  EXPECT_EQ(SpokenClient(Dialect::kC, port).Get("n"), std::to_string(kClients * kAdds));
}

TEST(ServerElsewhereTest, ClientsMayGoWhileTheStoreStillWorksForThem) {
  ElsewhereStore store;
  auto server = Server::Start(store, {.host = "127.0.0.1"});
  ASSERT_TRUE(server.ok()) << server.status();
  for (int i = 0; i < 50; ++i) {
    SpokenClient client(Dialect::kC, (*server)->port());
    client.Ask(Verb::kWait, {"never"});
    client.Ask(Verb::kAdd, {"n"}, 1);
  }
  SpokenClient last(Dialect::kC, (*server)->port());
  last.Ask(Verb::kWait, {"never"});
  server->reset();
  EXPECT_TRUE(last.Closed());
}

}  // namespace
}  // namespace dp::wire
