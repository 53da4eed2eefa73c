// More connections than most servers see, and fewer descriptors than connections.

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/program/descriptor_limit.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/async_hash_store.h"
#include "store/wire/server.h"
#include "store/wire/testing/spoken_client.h"

namespace dp::wire {
namespace {

// The server of this test in a process of its own: each connection takes a descriptor at both ends.
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
  const size_t descriptors = RaiseDescriptorLimit();
  if (descriptors < kConnections + 100)
    GTEST_SKIP() << "this process may open " << descriptors << " files only";
  ServerProcess server;
  std::vector<FileDescriptor> silent;
  for (size_t i = 0; i < kConnections; ++i) {
    auto socket = Connect("127.0.0.1", server.port(), kWirePatience);
    ASSERT_TRUE(socket.ok()) << "connection " << i << ": " << socket.status();
    silent.push_back(*std::move(socket));
  }
  SpokenClient client(Dialect::kC, server.port());
  client.Ask(Verb::kAdd, {"n"}, 1);
  EXPECT_EQ(client.Reply(Verb::kAdd).number, 1);
  // The first and the last connection are still open, and can be used.
  for (FileDescriptor* socket : {&silent.front(), &silent.back()}) {
    std::string bytes, reply(8, '\0');
    AppendRequest(Dialect::kA, {Verb::kNumKeys}, &bytes);
    ASSERT_EQ(send(socket->get(), bytes.data(), bytes.size(), 0), 1);
    ASSERT_TRUE(AwaitSocket(socket->get(), POLLIN, kWirePatience).ok());
    ASSERT_EQ(recv(socket->get(), reply.data(), 8, 0), 8);
    EXPECT_EQ(reply, std::string("\1\0\0\0\0\0\0\0", 8));
  }
}

TEST(ServerManyTest, ClientsBeyondTheMostWaitUntilOneGoes) {
  AsyncHashStore store;
  auto server = Server::Start(store, {.host = "127.0.0.1", .connections_max = 2});
  ASSERT_TRUE(server.ok()) << server.status();
  const uint16_t port = (*server)->port();
  auto first = std::make_unique<SpokenClient>(Dialect::kC, port);
  SpokenClient second(Dialect::kC, port);
  EXPECT_EQ(second.Get("k"), "");
  SpokenClient third(Dialect::kC, port);
  first.reset();
  EXPECT_EQ(third.Get("k"), "");
}

TEST(ServerManyTest, ThatThereIsNoRoomIsLoggedOnce) {
  ::testing::internal::CaptureStderr();
  {
    AsyncHashStore store;
    auto server = Server::Start(store, {.host = "127.0.0.1", .connections_max = 1});
    ASSERT_TRUE(server.ok()) << server.status();
    for (int i = 0; i < 3; ++i) {
      SpokenClient only(Dialect::kC, (*server)->port());
      EXPECT_EQ(only.Get("k"), "");
    }
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  const size_t first = log.find("tcpstore_full");
  EXPECT_NE(first, log.npos) << log;
  EXPECT_EQ(log.find("tcpstore_full", first + 1), log.npos) << log;
}

// No more than `left` descriptors can be opened while this object lives.
class NoDescriptors {
 public:
  explicit NoDescriptors(rlim_t left = 0) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const FileDescriptor next(dup(0));
    const rlimit limit{static_cast<rlim_t>(next.get()) + left, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};

// Connects while the process has so few, and expects to be served afterwards.
void ExpectServedLater(rlim_t descriptors_left) {
  AsyncHashStore store;
  auto server = Server::Start(store, {.host = "127.0.0.1"});
  ASSERT_TRUE(server.ok()) << server.status();
  SpokenClient served(Dialect::kC, (*server)->port());
  EXPECT_EQ(served.Get("k"), "");
  const FileDescriptor late(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  {
    NoDescriptors none(descriptors_left);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons((*server)->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(late.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(served.Get("k"), "");  // the server has tried by now
    EXPECT_EQ((*server)->connections(), 1u);
  }
  std::string ask, reply(8, '\0');
  AppendRequest(Dialect::kA, {Verb::kNumKeys}, &ask);
  ASSERT_EQ(send(late.get(), ask.data(), ask.size(), 0), 1);
  ASSERT_TRUE(AwaitSocket(late.get(), POLLIN, kWirePatience).ok());
  EXPECT_EQ(recv(late.get(), reply.data(), 8, 0), 8);
}

TEST(ServerManyTest, AClientThatFoundNoDescriptorIsServedOnceThereAreSome) { ExpectServedLater(0); }

TEST(ServerManyTest, AClientThatFoundReservedDescriptorsOnlyIsServedOnceThereAreOthers) {
  constexpr rlim_t kReserved = 64;  // of a process with few
  ExpectServedLater(kReserved);
}

}  // namespace
}  // namespace dp::wire
