#include "client/refusal.h"

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file_descriptor.h"
#include "base/security/certificate_authority.h"
#include "base/security/credential.h"
#include "base/testing/scratch_dir.h"
#include "client/testing/fake_access.h"
#include "client/tls_handshake.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::client {
namespace {

using security::Credential;
using security::Role;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kRefusalPatience = absl::Seconds(30);

class RefusalTest : public testing::Test {
 protected:
  absl::Status WhyWith(const Credential& credential) const {
    EXPECT_TRUE(security::WriteCredential(dir_, credential).ok());
    return WhyRefused(coordinator_.address(), {.dir = dir_}, kRefusalPatience);
  }
  static void ExpectRefusal(const absl::Status& status, absl::StatusCode code,
                            const std::string& text) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  const ScratchDir scratch_;
  const std::string dir_ = scratch_.path() / "credential";
  const FakeAccess coordinator_;
  const Credential ann_ = coordinator_.CredentialOf({Role::kUser, "ann"});
};

TEST_F(RefusalTest, ACallerThatIsLetInIsNotRefused) {
  EXPECT_EQ(WhyWith(ann_), absl::OkStatus());
  EXPECT_EQ(WhyWith({.authorities = ann_.authorities, .token = "of a rank"}), absl::OkStatus());
}

TEST_F(RefusalTest, WhereNobodyListensNothingIsRefused) {
  EXPECT_TRUE(security::WriteCredential(dir_, ann_).ok());
  for (const bool insecure : {false, true}) {
    EXPECT_EQ(WhyRefused("127.0.0.1:1", {.dir = dir_, .insecure = insecure}, kRefusalPatience),
              absl::OkStatus());
  }
}

TEST_F(RefusalTest, ACertificateOfAnAuthorityThatTheCoordinatorDoesNotTrustIsNamed) {
  const FakeAccess other;
  Credential of_other = other.CredentialOf({Role::kUser, "ann"});
  of_other.authorities = ann_.authorities;
  const absl::Status refused = WhyWith(of_other);
  ExpectRefusal(refused, absl::StatusCode::kUnauthenticated,
                "does not accept the certificate of user ann in " + dir_);
  ExpectRefusal(refused, absl::StatusCode::kUnauthenticated, "'dpctl grant'");
}

TEST_F(RefusalTest, ACoordinatorOfAnotherAuthorityIsNamed) {
  const FakeAccess other;
  ExpectRefusal(WhyWith(other.CredentialOf({Role::kUser, "ann"})),
                absl::StatusCode::kUnauthenticated,
                "is of another authority than that in " + dir_ + "/ca.crt");
}

// Makes one TLS handshake, and is gone.
class EndingCoordinator {
 public:
  explicit EndingCoordinator(const security::CertificateAuthority& authority)
      : context_(SSL_CTX_new(TLS_server_method())),
        listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const security::KeyPair key = security::KeyPair::Make();
    const auto certificate = authority.Issue(
        key.SigningRequest(),
        {.identity = {Role::kCoordinator, "dp"}, .hosts = {"head"}, .lifetime = absl::Hours(1)},
        absl::Now());
    DP_CHECK(SSL_CTX_use_certificate(context_.get(), certificate->get()) == 1);
    DP_CHECK(SSL_CTX_use_PrivateKey(context_.get(), key.get()) == 1);
    sockaddr_in at{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(at);
    auto* const any = reinterpret_cast<sockaddr*>(&at);
    DP_CHECK(bind(listener_.get(), any, size) == 0 && listen(listener_.get(), 1) == 0);
    DP_CHECK(getsockname(listener_.get(), any, &size) == 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(at.sin_port));
    thread_ = std::jthread([this] { Run(); });
  }
  const std::string& address() const { return address_; }

 private:
  void Run() {
    const FileDescriptor caller(accept(listener_.get(), nullptr, nullptr));
    const SslPtr ssl(SSL_new(context_.get()));
    SSL_set_fd(ssl.get(), caller.get());
    DP_CHECK(SSL_accept(ssl.get()) == 1);
    listener_ = {};
  }

  const SslContextPtr context_;
  FileDescriptor listener_;
  std::string address_;
  std::jthread thread_;
};

TEST_F(RefusalTest, ACoordinatorThatIsJustEndingHasRefusedNobody) {
  const auto authority = security::CertificateAuthority::Make(absl::Now());
  const security::KeyPair key = security::KeyPair::Make();
  const auto certificate =
      authority.Issue(key.SigningRequest(),
                      {.identity = {Role::kUser, "ann"}, .lifetime = absl::Hours(1)}, absl::Now());
  ASSERT_EQ(security::WriteCredential(dir_, {.authorities = authority.certificate().ToPem(),
                                             .chain = certificate->ToPem(),
                                             .key = key.ToPem()}),
            absl::OkStatus());
  const EndingCoordinator ending(authority);
  EXPECT_EQ(WhyRefused(ending.address(), {.dir = dir_}, kRefusalPatience), absl::OkStatus());
}

// Certificates of coordinators from elsewhere.
class RefusalOfServerTest : public RefusalTest {
 protected:
  static constexpr absl::Duration kDay = absl::Hours(24);

  // A coordinator that shows such a certificate refuses ann.
  absl::Status WhyOf(const security::Grant& own, absl::Time made_at = absl::Now()) {
    const FakeAccess server(own, made_at);
    address_ = server.address();
    EXPECT_TRUE(security::WriteCredential(dir_, server.CredentialOf({Role::kUser, "ann"})).ok());
    return WhyRefused(address_, {.dir = dir_}, kRefusalPatience);
  }

  std::string address_;
};

TEST_F(RefusalOfServerTest, ACertificateForAnotherHostIsNamedWithItsHosts) {
  ExpectRefusal(
      WhyOf({.identity = {Role::kViewer, "web"},
             .hosts = {"head.example.org", "192.0.2.7", "2001:db8::7"},
             .lifetime = kDay}),
      absl::StatusCode::kUnauthenticated,
      "is not for 127.0.0.1; it is for head.example.org, 192.0.2.7, 2001:db8::7; call the "
      "coordinator at a name of its certificate, or let the certificate name 127.0.0.1 "
      "(dp-coordinator --tls-cert, or --tls-name for its own)");
}

TEST_F(RefusalOfServerTest, ACertificateForTheHostOrOfACoordinatorIsAccepted) {
  EXPECT_EQ(WhyOf({.identity = {Role::kViewer, "web"}, .hosts = {"127.0.0.1"}, .lifetime = kDay}),
            absl::OkStatus());
  EXPECT_EQ(WhyOf({.identity = {Role::kCoordinator, "dp"}, .hosts = {"head"}, .lifetime = kDay}),
            absl::OkStatus());
}

TEST_F(RefusalOfServerTest, AnExpiredCertificateIsNamedAsSuchWithTheClock) {
  const absl::Status expired =
      WhyOf({.identity = {Role::kCoordinator, "dp"}, .hosts = {"head"}, .lifetime = kDay},
            absl::Now() - 2 * kDay);
  ExpectRefusal(expired, absl::StatusCode::kUnauthenticated,
                "the certificate of the coordinator at " + address_ + " expired at ");
  ExpectRefusal(expired, absl::StatusCode::kUnauthenticated, ", and this host's clock says ");
  EXPECT_THAT(std::string(expired.message()), Not(HasSubstr("another authority")));
}

TEST_F(RefusalOfServerTest, OneThatIsNotYetValidToo) {
  const absl::Status early =
      WhyOf({.identity = {Role::kCoordinator, "dp"}, .hosts = {"head"}, .lifetime = kDay},
            absl::Now() + absl::Hours(2));
  ExpectRefusal(early, absl::StatusCode::kUnauthenticated,
                "the certificate of the coordinator at " + address_ + " is not valid before ");
  ExpectRefusal(early, absl::StatusCode::kUnauthenticated, "; set the clock that is wrong");
}

TEST_F(RefusalOfServerTest, OneThatIsOfAClientIsNamedAsSuch) {
  ExpectRefusal(WhyOf({.identity = {Role::kUser, "bob"}, .lifetime = kDay}),
                absl::StatusCode::kUnauthenticated, " is not one of a server; check the address");
}

TEST_F(RefusalTest, ACertificateOfTheCallerThatIsNotYetValidIsNamedAsSuch) {
  const absl::Status early =
      WhyWith(coordinator_.CredentialOf({Role::kUser, "ann"}, absl::Now() + absl::Hours(2)));
  ExpectRefusal(
      early, absl::StatusCode::kUnauthenticated,
      "does not accept the certificate of user ann in " + dir_ + ": it is not valid before ");
  ExpectRefusal(early, absl::StatusCode::kUnauthenticated, "; set the clock that is wrong");
}

TEST_F(RefusalTest, OneThatIsValidInAMomentIsNoRefusal) {
  const absl::Time made = absl::Now() + security::CertificateAuthority::kClockSkew;
  for (const absl::Duration ahead : {absl::Seconds(1), absl::Milliseconds(1700)}) {
    EXPECT_EQ(WhyWith(coordinator_.CredentialOf({Role::kUser, "ann"}, made + ahead)),
              absl::OkStatus());
  }
}

TEST_F(RefusalTest, PlainTextTowardsTlsIsNamed) {
  ExpectRefusal(WhyRefused(coordinator_.address(), {.insecure = true}, kRefusalPatience),
                absl::StatusCode::kFailedPrecondition, "leave out --insecure");
}

TEST_F(RefusalTest, TlsTowardsPlainTextIsNamed) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  v1::Access::Service service;
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const std::string address = absl::StrCat("127.0.0.1:", port);
  EXPECT_TRUE(security::WriteCredential(dir_, ann_).ok());
  ExpectRefusal(WhyRefused(address, {.dir = dir_}, kRefusalPatience),
                absl::StatusCode::kFailedPrecondition, " does not use TLS, so it is not the");
  EXPECT_THAT(std::string(WhyRefused(address, {.dir = dir_}, kRefusalPatience).message()),
              Not(HasSubstr("--insecure")));
  EXPECT_EQ(WhyRefused(address, {.insecure = true}, kRefusalPatience), absl::OkStatus());
  server->Shutdown();
}

}  // namespace
}  // namespace dp::client
