#include "server/connections/connection_listener.h"

#include <arpa/inet.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/security/certificate_authority.h"
#include "gtest/gtest.h"
#include "server/connections/listen_address.h"

namespace dp::server {
namespace {

using grpc::experimental::StaticDataCertificateProvider;

constexpr int kPatienceMs = 30'000;
// The first bytes of a client of HTTP/2 in plain text (RFC 9113, section 3.4), and its settings.
constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

// The log of the process while this exists, readable at any time.
class LoggedText {
 public:
  LoggedText() : file_(memfd_create("log", MFD_CLOEXEC)), stderr_(dup(STDERR_FILENO)) {
    DP_CHECK(dup2(file_.get(), STDERR_FILENO) == STDERR_FILENO);
  }
  ~LoggedText() { DP_CHECK(dup2(stderr_.get(), STDERR_FILENO) == STDERR_FILENO); }
  LoggedText(const LoggedText&) = delete;
  LoggedText& operator=(const LoggedText&) = delete;

  int Count(const std::string& part) const {
    std::string text(64 << 10, '\0');
    const ssize_t size = pread(file_.get(), text.data(), text.size(), 0);
    text.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
    int count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++count;
    return count;
  }

 private:
  const FileDescriptor file_, stderr_;
};

// Takes one connection in gRPC's place.
class Kept final : public ConnectionListener::Acceptor {
 public:
  void HandleNewConnection(NewConnectionParameters* connection) override {
    socket_ = connection->fd;
  }
  ~Kept() override { close(socket_); }
  int socket() const { return socket_; }

 private:
  std::atomic<int> socket_ = -1;
};

class ConnectionListenerTest : public testing::Test {
 protected:
  using Limits = ConnectionListener::Limits;

  ConnectionListenerTest() {
    using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
    grpc::ServerBuilder builder;
    tls_ = builder.experimental().AddExternalConnectionAcceptor(Type::FROM_FD, ServerTls());
    plain_text_ = builder.experimental().AddExternalConnectionAcceptor(
        Type::FROM_FD, grpc::InsecureServerCredentials());
    cq_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    poller_ = std::jthread([this] {
      bool ok = true;
      for (void* tag; cq_->Next(&tag, &ok);) {
      }
    });
  }
  ~ConnectionListenerTest() override {
    listener_.reset();
    server_->Shutdown();
    cq_->Shutdown();
  }
  void ListenForBoth(const Limits& limits = {}) { Listen({tls_.get(), plain_text_.get()}, limits); }
  void ListenForTlsOnly() { Listen({.tls = tls_.get()}, {}); }
  void ListenFor(ConnectionListener::Acceptor& plain_text) {
    Listen({.plain_text = &plain_text}, {});
  }
  void StopListening() { listener_.reset(); }

  FileDescriptor Connect(const char* from = "127.0.0.1") {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
    const sockaddr_in own = Address(from, 0), server = Address("127.0.0.1", port_);
    EXPECT_EQ(bind(socket.get(), reinterpret_cast<const sockaddr*>(&own), sizeof(own)), 0);
    EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&server), sizeof(server)), 0);
    return socket;
  }
  static void Send(const FileDescriptor& socket, const std::string& text) {
    EXPECT_EQ(send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL), ssize_t(text.size()));
  }
  // The next news: "bytes" or "end"; "nothing" if nothing comes in time.
  static std::string Next(const FileDescriptor& socket, int patience_ms = kPatienceMs) {
    pollfd wait{.fd = socket.get(), .events = POLLIN, .revents = 0};
    if (poll(&wait, 1, patience_ms) != 1) return "nothing";
    char byte;
    return recv(socket.get(), &byte, 1, 0) == 1 ? "bytes" : "end";
  }
  // Connects until gRPC has answered, which closes its end of an earlier connection in a moment.
  bool GetsThrough() {
    const absl::Time deadline = absl::Now() + absl::Milliseconds(kPatienceMs);
    while (absl::Now() < deadline) {
      const FileDescriptor socket = Connect();
      (void)send(socket.get(), Spoken().data(), Spoken().size(), MSG_NOSIGNAL);
      if (Next(socket) == "bytes") return true;
    }
    return false;
  }
  // Before it listens.
  void LimitStrangers(const StrangerBytes::Limits& limits) {
    strangers_ = std::make_unique<StrangerConnections>(limits, refusals_);
  }
  size_t refusals() const { return refusals_.Latest().size(); }
  bool Owes(const std::string& host) const { return strangers_->Owes(host, Clock::Steady().Now()); }
  static bool Await(absl::FunctionRef<bool()> holds) {
    const absl::Time deadline = absl::Now() + absl::Milliseconds(kPatienceMs);
    while (!holds()) {
      if (absl::Now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }
  bool AwaitOwes(const std::string& host) const {
    return Await([&] { return Owes(host); });
  }
  // Until the connections have been looked at, and did not send.
  bool AwaitRest() const {
    return Await([&] {
      const absl::Duration until = strangers_->next_look() - Clock::Steady().Now();
      return until > StrangerConnections::kLookEvery && until < absl::InfiniteDuration();
    });
  }
  // The header of a TLS record of 16 KiB, whose rest gRPC waits for.
  static std::string BeginOfTls() { return std::string("\x16\x03\x01\x40\x00", 5); }
  // A TLS record that is none, at which gRPC closes the connection.
  static std::string NoTls() { return "\x16" + std::string(500, 'x'); }
  static std::string Spoken() { return {kPreface, sizeof(kPreface) - 1}; }
  static bool IsOpen(const FileDescriptor& socket) { return Next(socket, 0) == "nothing"; }
  // Whether a client of gRPC gets an HTTP/2 connection.
  bool Connects(const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
    return grpc::CreateChannel(absl::StrCat("127.0.0.1:", port_), credentials)
        ->WaitForConnected(Patience());
  }
  static gpr_timespec Patience() {
    return gpr_time_add(gpr_now(GPR_CLOCK_REALTIME),
                        gpr_time_from_millis(kPatienceMs, GPR_TIMESPAN));
  }
  // With a connection of its own.
  std::shared_ptr<grpc::Channel> Channel() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port_),
                                     grpc::InsecureChannelCredentials(), arguments);
  }
  // Makes a call of an unknown method, as far as the connection lasts.
  static void Call(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    const grpc::Slice empty;
    const grpc::ByteBuffer request(&empty, 1);
    grpc::ByteBuffer response;
    std::promise<void> ended;
    grpc::GenericStub(channel).UnaryCall(&context, "/dp.test/None", {}, &request, &response,
                                         [&ended](const grpc::Status&) { ended.set_value(); });
    ended.get_future().wait();
  }
  void RejectACall() { refusals_.CountAtHeaders(); }
  std::shared_ptr<grpc::ChannelCredentials> ClientTls() const {
    grpc::experimental::TlsChannelCredentialsOptions options;
    options.set_certificate_provider(
        std::make_shared<StaticDataCertificateProvider>(authority_.certificate().ToPem()));
    options.watch_root_certs();
    return grpc::experimental::TlsCredentials(options);
  }

 private:
  std::shared_ptr<grpc::ServerCredentials> ServerTls() const {
    const security::KeyPair key = security::KeyPair::Make();
    const auto certificate = authority_.Issue(key.SigningRequest(), grant_, absl::Now());
    grpc::experimental::TlsServerCredentialsOptions options(
        std::make_shared<StaticDataCertificateProvider>(
            std::vector<grpc::experimental::IdentityKeyCertPair>{
                {key.ToPem(), certificate->ToPem()}}));
    options.watch_identity_key_cert_pairs();
    return grpc::experimental::TlsServerCredentials(options);
  }
  static sockaddr_in Address(const char* host, int port) {
    sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(static_cast<in_port_t>(port))};
    DP_CHECK(inet_pton(AF_INET, host, &address.sin_addr) == 1);
    return address;
  }
  void Listen(const ConnectionListener::Acceptors& acceptors, const Limits& limits) {
    auto socket = ListenAddress{"127.0.0.1", 0}.Listen("--listen");
    ASSERT_TRUE(socket.ok()) << socket.status();
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    getsockname(socket->get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    listener_ = std::make_unique<ConnectionListener>(*std::move(socket), acceptors, limits,
                                                     *strangers_, refusals_);
  }

  const security::CertificateAuthority authority_ =
      security::CertificateAuthority::Make(absl::Now());
  const security::Grant grant_{.identity = {security::Role::kCoordinator, "dp"},
                               .hosts = {"127.0.0.1"},
                               .lifetime = absl::Hours(1)};
  std::unique_ptr<ConnectionListener::Acceptor> tls_, plain_text_;
  std::unique_ptr<grpc::ServerCompletionQueue> cq_;
  std::unique_ptr<grpc::Server> server_;
  std::jthread poller_;  // without it nobody reads what clients send
  Refusals refusals_;
  std::unique_ptr<StrangerConnections> strangers_ =
      std::make_unique<StrangerConnections>(StrangerBytes::Limits(), refusals_);
  std::unique_ptr<ConnectionListener> listener_;
  int port_ = 0;
};

TEST_F(ConnectionListenerTest, TlsAndPlainTextAreServedOnOnePort) {
  ListenForBoth();
  EXPECT_TRUE(Connects(ClientTls()));
  EXPECT_TRUE(Connects(grpc::InsecureChannelCredentials()));
}

TEST_F(ConnectionListenerTest, PlainTextThatNobodyServesIsClosed) {
  ListenForTlsOnly();
  const FileDescriptor client = Connect();
  Send(client, Spoken());
  EXPECT_EQ(Next(client), "end");
  EXPECT_TRUE(Connects(ClientTls()));
}

TEST_F(ConnectionListenerTest, AConnectionOnWhichNothingComesIsClosed) {
  ListenForBoth({.silence = absl::Milliseconds(1)});
  EXPECT_EQ(Next(Connect()), "end");
}

TEST_F(ConnectionListenerTest, OfTooManySilentConnectionsTheOldestIsClosed) {
  ListenForBoth({.silent = 2});
  const FileDescriptor first = Connect(), second = Connect();
  EXPECT_TRUE(IsOpen(first));
  const FileDescriptor third = Connect();
  EXPECT_EQ(Next(first), "end");
  EXPECT_TRUE(IsOpen(second) && IsOpen(third));
}

TEST_F(ConnectionListenerTest, AHostThatConnectsTooOftenClosesItsOwnConnectionsOnly) {
  ListenForBoth({.silent_of_host = 1});
  const FileDescriptor other = Connect("127.0.0.2"), first = Connect();
  const FileDescriptor second = Connect();
  EXPECT_EQ(Next(first), "end");
  EXPECT_TRUE(IsOpen(other) && IsOpen(second));
}

TEST_F(ConnectionListenerTest, AHostWithTooManyOpenConnectionsGetsNoMore) {
  ListenForBoth({.open_of_host = 1});
  FileDescriptor first = Connect();
  Send(first, Spoken());
  EXPECT_EQ(Next(first), "bytes");
  const FileDescriptor second = Connect(), other = Connect("127.0.0.2");
  EXPECT_EQ(Next(second), "end");
  Send(other, Spoken());
  EXPECT_EQ(Next(other), "bytes");
  first.Close();
  EXPECT_TRUE(GetsThrough());
}

TEST_F(ConnectionListenerTest, ARefusalIsLoggedAnewAfterACalmTime) {
  const LoggedText log;
  ListenForBoth({.open_of_host = 1, .calm = absl::Milliseconds(1)});
  const FileDescriptor first = Connect();
  Send(first, Spoken());
  EXPECT_EQ(Next(first), "bytes");
  EXPECT_EQ(Next(Connect()), "end");
  EXPECT_TRUE(Await([&] { return log.Count("event=connections_refused_over") == 1; }));
  EXPECT_EQ(log.Count("event=connections_refused "), 1);
  EXPECT_EQ(Next(Connect()), "end");
  EXPECT_TRUE(Await([&] { return log.Count("event=connections_refused ") == 2; }));
}

// The other host's attempt shows that the first one's turn has come and gone.
TEST_F(ConnectionListenerTest, AHostThatOwesWaitsForItsHandshakes) {
  LimitStrangers({.per_second = 1, .at_once = 100, .owes_max = absl::Hours(1)});
  ListenForBoth();
  const FileDescriptor first = Connect();
  Send(first, NoTls());
  EXPECT_NE(Next(first), "nothing");
  EXPECT_TRUE(AwaitOwes("127.0.0.1"));
  const FileDescriptor second = Connect(), other = Connect("127.0.0.2");
  Send(second, NoTls());
  EXPECT_NE(Next(second, 0), "bytes");
  Send(other, NoTls());
  EXPECT_NE(Next(other), "nothing");
  EXPECT_TRUE(IsOpen(second));
}

TEST_F(ConnectionListenerTest, AStrangerWhoPausesIsSeenAsSoonAsItSendsAgain) {
  LimitStrangers({.per_second = 1, .at_once = 100, .owes_max = absl::Hours(1)});
  ListenForBoth();
  const FileDescriptor pauses = Connect();
  Send(pauses, BeginOfTls());
  EXPECT_TRUE(AwaitRest());
  EXPECT_FALSE(Owes("127.0.0.1"));
  Send(pauses, std::string(500, 'x'));
  EXPECT_TRUE(AwaitOwes("127.0.0.1"));
}

TEST_F(ConnectionListenerTest, AClientThatSendsOnAndReadsNothingIsReset) {
  Kept kept;
  ListenFor(kept);
  const FileDescriptor client = Connect();
  Send(client, "x");
  ASSERT_TRUE(Await([&] { return kept.socket() >= 0; }));
  const std::string much(64 << 10, 'x');
  while (send(kept.socket(), much.data(), much.size(), MSG_NOSIGNAL) > 0) {
  }
  std::string read(much.size(), 0);
  EXPECT_TRUE(Await([&] {
    (void)send(client.get(), much.data(), much.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)recv(kept.socket(), read.data(), read.size(), 0);
    return refusals() == 1;
  }));
  EXPECT_TRUE(Await([&] { return recv(kept.socket(), read.data(), read.size(), 0) == 0; }));
  StopListening();
}

// gRPC does not read the message of a call to a method that it does not know.
TEST_F(ConnectionListenerTest, AClientThatGoesOnWithRejectedCallsIsResetAndItsHostWaits) {
  ListenForBoth({.abandoned = {.of_connection = 3, .rejected = 1}});
  const auto abandons = Channel(), other = Channel();
  for (int i = 0; i < 3; ++i) Call(other);
  EXPECT_EQ(refusals(), 0);
  EXPECT_TRUE(Await([&] {
    Call(abandons);
    RejectACall();
    return refusals() == 1;
  }));
  EXPECT_TRUE(Owes("127.0.0.1"));
  EXPECT_EQ(other->GetState(/*try_to_connect=*/false), GRPC_CHANNEL_READY);
}

TEST_F(ConnectionListenerTest, AConnectionThatHasSpokenIsNotSilentAnyMore) {
  ListenForBoth({.silent = 1});
  const FileDescriptor speaker = Connect();
  Send(speaker, Spoken());
  EXPECT_EQ(Next(speaker), "bytes");
  const FileDescriptor first = Connect(), second = Connect();
  EXPECT_EQ(Next(first), "end");
  EXPECT_NE(Next(speaker, 0), "end");
}

// Each takes the place of an earlier one.
TEST_F(ConnectionListenerTest, ClientsThatLeaveMakeRoom) {
  ListenForBoth({.silent = 2});
  const FileDescriptor first = Connect();
  for (int i = 0; i < 10; ++i) {
    const FileDescriptor leaves = Connect();
    shutdown(leaves.get(), SHUT_WR);
    EXPECT_EQ(Next(leaves), "end");
  }
  EXPECT_TRUE(IsOpen(first));
}

TEST_F(ConnectionListenerTest, ItsEndClosesWhatIsStillSilent) {
  ListenForBoth({.silent = 1});
  const FileDescriptor before = Connect(), last = Connect();
  EXPECT_EQ(Next(before), "end");  // so the listener has taken the last one
  StopListening();
  EXPECT_EQ(Next(last), "end");
}

}  // namespace
}  // namespace dp::server
