#include "base/store/wire/server.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "base/bounded_queue.h"
#include "base/descriptor_limit.h"
#include "base/store/async_hash_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::wire {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);  // only a failing test waits for it

// A client that speaks for itself, byte by byte where it is asked to. Not thread-safe.
class Client {
 public:
  Client(Dialect dialect, uint16_t port, const std::string& host = "127.0.0.1")
      : dialect_(dialect) {
    auto socket = Connect(host, port, kPatience);
    EXPECT_TRUE(socket.ok()) << socket.status();
    if (!socket.ok()) return;
    socket_ = *std::move(socket);
    if (dialect == Dialect::kC) Say(std::string("\0\xce\xf7\x85\x3c", 5));
  }

  void Ask(Verb verb, std::vector<std::string> strings = {}, int64_t number = 0) {
    std::string bytes;
    AppendRequest(dialect_, {verb, {std::move(strings), number}}, &bytes);
    Say(bytes);
  }
  void Say(absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN) return;  // the server has closed, as some tests want
      if (sent > 0)
        bytes.remove_prefix(static_cast<size_t>(sent));
      else
        (void)AwaitSocket(socket_.get(), POLLOUT,
                          kPatience);  // what fails is seen by the next send
    }
  }
  Fields Reply(Verb verb, uint64_t count = 0) {
    FieldParser parser(Limits{});
    parser.Begin(ReplyShape(verb), count);
    for (;;) {
      absl::string_view input = heard_;
      const bool complete = *parser.Take(&input);
      heard_ = std::string(input);
      if (complete) return parser.Finish();
      if (!Hear()) return {{"(closed)"}, -1};
    }
  }
  // Whether the server closes the connection without another byte.
  bool Closed() { return heard_.empty() && !Hear(); }

  std::string Get(const std::string& key) {
    Ask(Verb::kGet, {key});
    return Reply(Verb::kGet).strings[0];
  }

 private:
  // Returns false at the end.
  bool Hear() {
    char bytes[65536];
    EXPECT_TRUE(AwaitSocket(socket_.get(), POLLIN, kPatience).ok());
    const ssize_t got = recv(socket_.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got <= 0) return false;
    heard_.append(bytes, static_cast<size_t>(got));
    return true;
  }

  const Dialect dialect_;
  FileDescriptor socket_;
  std::string heard_;
};

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
  absl::flat_hash_map<uint64_t, Ticket> tickets_;  // the thread's
  BoundedQueue<Call> calls_{1 << 20};
  std::jthread thread_{[this] {
    for (bool open = true; open;) {
      open = !calls_.closed();
      for (Call& call : calls_.DrainFor(kPatience)) std::move(call)();
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
  Client Connected(Dialect dialect = Dialect::kC) { return Client(dialect, server_->port()); }

  AsyncHashStore store_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, ClientsOfEveryDialectShareOnePortAndItsKeys) {
  Client a = Connected(Dialect::kA), b = Connected(Dialect::kB), c = Connected(Dialect::kC);
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
  Client client = Connected();
  std::string bytes;
  AppendRequest(Dialect::kC, {Verb::kSet, {{"key", "value"}}}, &bytes);
  for (const char byte : bytes) client.Say(std::string(1, byte));
  EXPECT_EQ(client.Get("key"), "value");
}

TEST_F(ServerTest, AWaitIsAnsweredThroughAnotherConnection) {
  Client waiter = Connected(), setter = Connected();
  waiter.Ask(Verb::kWait, {"k"});
  setter.Ask(Verb::kMultiSet, {"j", "1", "k", "2"});
  EXPECT_EQ(waiter.Reply(Verb::kWait).number, kStopWaiting);
  EXPECT_EQ(waiter.Get("k"), "2");
}

TEST_F(ServerTest, WhatCannotBeFollowedIsClosedAfterWhatWasAsked) {
  Client good = Connected(), bad = Connected();
  std::string bytes;
  AppendRequest(Dialect::kC, {Verb::kAdd, {{"n"}, 1}}, &bytes);
  bad.Say(bytes + "\x63");
  EXPECT_EQ(bad.Reply(Verb::kAdd).number, 1);
  EXPECT_TRUE(bad.Closed());
  EXPECT_EQ(good.Get("n"), "1");
}

TEST_F(ServerTest, AKeyBeyondTheLimitIsClosedBeforeItsBytesCome) {
  Client client = Connected();
  std::string bytes("\x03");
  AppendNumber(8193, &bytes);
  client.Say(bytes);
  EXPECT_TRUE(client.Closed());
}

TEST_F(ServerTest, ALargeValueGoesThroughInBothDirections) {
  Client client = Connected();
  const std::string value(size_t{8} << 20, 'v');
  client.Ask(Verb::kSet, {"k", value});
  EXPECT_EQ(client.Get("k"), value);
}

TEST_F(ServerTest, AReaderThatDoesNotReadStopsOnlyItself) {
  Client deaf = Connected(), other = Connected();
  other.Ask(Verb::kSet, {"k", std::string(size_t{1} << 20, 'v')});
  EXPECT_EQ(other.Get("none"), "");  // by now it is set
  constexpr int kGets = 200;
  for (int i = 0; i < kGets; ++i) deaf.Ask(Verb::kGet, {"k"});
  other.Ask(Verb::kSet, {"small", "v"});
  EXPECT_EQ(other.Get("small"), "v");
  for (int i = 0; i < kGets; ++i) ASSERT_EQ(deaf.Reply(Verb::kGet).strings[0].size(), 1u << 20);
}

TEST_F(ServerTest, AFloodOnOneConnectionDoesNotStarveAnother) {
  std::atomic<bool> done = false;
  std::jthread flood([&] {
    Client client = Connected();
    std::string sets;
    for (int i = 0; i < 1000; ++i)
      AppendRequest(Dialect::kC, {Verb::kSet, {{"flood", "v"}}}, &sets);
    while (!done) client.Say(sets);
  });
  Client client = Connected();
  for (int i = 1; i <= 100; ++i) {
    client.Ask(Verb::kAdd, {"n"}, 1);
    ASSERT_EQ(client.Reply(Verb::kAdd).number, i);
  }
  done = true;
}

TEST_F(ServerTest, ItsEndIsTheEndOfEveryConnection) {
  Client waiting = Connected(), silent = Connected(Dialect::kA);
  waiting.Ask(Verb::kWait, {"never"});
  waiting.Ask(Verb::kPing, {}, 1);
  EXPECT_EQ(silent.Get("k"), "");  // by now the server has them all
  server_.reset();
  EXPECT_TRUE(waiting.Closed());
  EXPECT_TRUE(silent.Closed());
  EXPECT_EQ(store_.waiting(), 0u);
}

TEST_F(ServerTest, ListensOnBothFamiliesWhenNoHostIsNamed) {
  Start("");
  EXPECT_EQ(Client(Dialect::kC, server_->port(), "127.0.0.1").Get("k"), "");
  auto v6 = Connect("::1", server_->port(), kPatience);
  if (!v6.ok()) GTEST_SKIP() << "no IPv6 here: " << v6.status();
  EXPECT_EQ(Client(Dialect::kC, server_->port(), "::1").Get("k"), "");
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
  EXPECT_EQ(Client(Dialect::kA, (*server)->port()).Get("k"), "");
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
        Client client(Dialect::kC, port);
        for (int i = 0; i < kAdds; ++i) {
          client.Ask(Verb::kSet, {"last", "v"});
          client.Ask(Verb::kAdd, {"n"}, 1);
          ASSERT_GT(client.Reply(Verb::kAdd).number, 0);
        }
        client.Ask(Verb::kBarrier, {"end"}, kClients);
        EXPECT_EQ(client.Reply(Verb::kBarrier).number, kStopWaiting);
      });
  }
  EXPECT_EQ(Client(Dialect::kC, port).Get("n"), std::to_string(kClients * kAdds));
}

TEST(ServerElsewhereTest, ClientsMayGoWhileTheStoreStillWorksForThem) {
  ElsewhereStore store;
  auto server = Server::Start(store, {.host = "127.0.0.1"});
  ASSERT_TRUE(server.ok()) << server.status();
  for (int i = 0; i < 50; ++i) {
    Client client(Dialect::kC, (*server)->port());
    client.Ask(Verb::kWait, {"never"});
    client.Ask(Verb::kAdd, {"n"}, 1);
  }
  Client last(Dialect::kC, (*server)->port());
  last.Ask(Verb::kWait, {"never"});
  server->reset();
  EXPECT_TRUE(last.Closed());
}

// The server of this test is a process of its own: each connection takes a descriptor at both ends.
class ServerProcess {
 public:
  ServerProcess() {
    EXPECT_EQ(pipe(down_), 0);
    EXPECT_EQ(pipe(up_), 0);
    child_ = fork();
    if (child_ == 0) Serve();
    close(down_[0]);
    close(up_[1]);
    uint16_t port = 0;
    EXPECT_EQ(read(up_[0], &port, sizeof(port)), static_cast<ssize_t>(sizeof(port)));
    port_ = port;
  }
  ~ServerProcess() {
    close(down_[1]);
    close(up_[0]);
    int status = 0;
    waitpid(child_, &status, 0);
    EXPECT_EQ(status, 0);
  }
  uint16_t port() const { return port_; }

 private:
  [[noreturn]] void Serve() {
    close(down_[1]);
    {
      AsyncHashStore store;
      auto server = Server::Start(store, {.host = "127.0.0.1"});
      const uint16_t port = server.ok() ? (*server)->port() : 0;
      char end;
      if (write(up_[1], &port, sizeof(port)) > 0 && read(down_[0], &end, 1) < 0) _exit(1);
    }
    _exit(0);
  }

  int down_[2], up_[2];
  pid_t child_ = -1;
  uint16_t port_ = 0;
};

TEST(ServerManyTest, TenThousandSilentConnectionsAreHeldWhileOneIsServed) {
  constexpr size_t kConnections = 10000;
  RaiseDescriptorLimit();
  const size_t descriptors = DescriptorLimit();
  if (descriptors < kConnections + 100)
    GTEST_SKIP() << "this process may open " << descriptors << " files only";
  ServerProcess server;
  std::vector<FileDescriptor> silent;
  for (size_t i = 0; i < kConnections; ++i) {
    auto socket = Connect("127.0.0.1", server.port(), kPatience);
    ASSERT_TRUE(socket.ok()) << "connection " << i << ": " << socket.status();
    silent.push_back(*std::move(socket));
  }
  Client client(Dialect::kC, server.port());
  client.Ask(Verb::kAdd, {"n"}, 1);
  EXPECT_EQ(client.Reply(Verb::kAdd).number, 1);
  // The first and the last of them are still there, and can speak.
  for (FileDescriptor* socket : {&silent.front(), &silent.back()}) {
    std::string bytes, reply(8, '\0');
    AppendRequest(Dialect::kA, {Verb::kNumKeys}, &bytes);
    ASSERT_EQ(send(socket->get(), bytes.data(), bytes.size(), 0), 1);
    ASSERT_TRUE(AwaitSocket(socket->get(), POLLIN, kPatience).ok());
    ASSERT_EQ(recv(socket->get(), reply.data(), 8, 0), 8);
    EXPECT_EQ(reply, std::string("\1\0\0\0\0\0\0\0", 8));
  }
}

TEST(ServerManyTest, ClientsBeyondTheMostWaitUntilOneGoes) {
  AsyncHashStore store;
  auto server = Server::Start(store, {.host = "127.0.0.1", .connections_max = 2});
  ASSERT_TRUE(server.ok()) << server.status();
  const uint16_t port = (*server)->port();
  auto first = std::make_unique<Client>(Dialect::kC, port);
  Client second(Dialect::kC, port);
  EXPECT_EQ(second.Get("k"), "");
  Client third(Dialect::kC, port);
  first.reset();
  EXPECT_EQ(third.Get("k"), "");
}

// No descriptor can be opened while it lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const FileDescriptor next(dup(0));
    const rlimit limit{static_cast<rlim_t>(next.get()), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};

TEST(ServerManyTest, AClientThatFoundNoDescriptorIsServedOnceThereAreSome) {
  AsyncHashStore store;
  auto server = Server::Start(store, {.host = "127.0.0.1"});
  ASSERT_TRUE(server.ok()) << server.status();
  Client served(Dialect::kC, (*server)->port());
  EXPECT_EQ(served.Get("k"), "");
  const FileDescriptor late(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  {
    NoDescriptors none;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons((*server)->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(late.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(served.Get("k"), "");  // the server has tried by now
  }
  std::string ask, reply(8, '\0');
  AppendRequest(Dialect::kA, {Verb::kNumKeys}, &ask);
  ASSERT_EQ(send(late.get(), ask.data(), ask.size(), 0), 1);
  ASSERT_TRUE(AwaitSocket(late.get(), POLLIN, kPatience).ok());
  EXPECT_EQ(recv(late.get(), reply.data(), 8, 0), 8);
}

}  // namespace
}  // namespace dp::wire
