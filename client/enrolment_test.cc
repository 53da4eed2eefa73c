#include "client/enrolment.h"

#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/security/certificate.h"
#include "client/absence.h"
#include "client/testing/fake_access.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::client {
namespace {

using security::Certificate;
using security::Credential;
using security::Identity;
using security::KeyPair;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kEnrolPatience = absl::Seconds(30);
const Identity kAnn{security::Role::kUser, "ann"};

// A port that accepts nothing, unless it listens; nobody ever answers on it.
class DeadPort {
 public:
  DeadPort() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    DP_CHECK(bind(socket_.get(), any, size) == 0 && getsockname(socket_.get(), any, &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  void Listen() { DP_CHECK(listen(socket_.get(), 1) == 0); }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  const FileDescriptor socket_;
  int port_ = 0;
};

class EnrolmentTest : public testing::Test {
 protected:
  absl::StatusOr<std::string> Fetch(const std::string& address,
                                    absl::Duration timeout = kEnrolPatience) const {
    return FetchAuthority(address, coordinator_.authority().certificate().Fingerprint(), timeout);
  }
  static void ExpectMessage(const absl::Status& status, absl::StatusCode code,
                            const std::string& part) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }

  FakeAccess coordinator_;
  DeadPort nobody_;
};

TEST_F(EnrolmentTest, TheAuthorityIsFetchedFromACoordinatorThatNobodyTrustsYet) {
  const auto fetched = Fetch(coordinator_.address());
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(*fetched, coordinator_.authority().certificate().ToPem());
}

TEST_F(EnrolmentTest, AnotherClustersCoordinatorIsNotTrusted) {
  const FakeAccess other;
  ExpectMessage(Fetch(other.address()).status(), absl::StatusCode::kUnauthenticated,
                "the coordinator at " + other.address() + " is not of the cluster");
}

TEST_F(EnrolmentTest, AWrongClockIsNamedWithBothTimes) {
  const security::Grant own{.identity = {security::Role::kCoordinator, "dp"},
                            .lifetime = absl::Hours(1)};
  for (const auto& [made_at, part] :
       {std::pair(absl::Now() + absl::Hours(2), " is not valid before "),
        std::pair(absl::Now() - absl::Hours(2), " expired at ")}) {
    FakeAccess other(own, made_at);
    const absl::Status refused =
        EnrolByToken(other.address(), other.JoinToken(kAnn), {}, kEnrolPatience).status();
    ExpectMessage(refused, absl::StatusCode::kUnauthenticated,
                  absl::StrCat("the certificate of the coordinator at ", other.address(), part));
    ExpectMessage(refused, absl::StatusCode::kUnauthenticated, ", and this host's clock says ");
    EXPECT_THAT(other.heard(), IsEmpty());
  }
}

TEST_F(EnrolmentTest, AServerInPlainTextIsNamedAsOne) {
  int port = 0;
  v1::Access::Service service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  ExpectMessage(Fetch(absl::StrCat("127.0.0.1:", port)).status(), absl::StatusCode::kUnavailable,
                "it does not answer with TLS");
  server->Shutdown();
}

TEST_F(EnrolmentTest, WhereNobodyListensTheAddressAndTheReasonAreNamed) {
  ExpectMessage(Fetch(nobody_.address()).status(), absl::StatusCode::kUnavailable,
                "coordinator at " + nobody_.address() + ": Connection refused");
  EXPECT_EQ(AbsenceIn(Fetch(nobody_.address()).status()), Absence::kNothingConnected);
  ExpectMessage(Fetch("no port").status(), absl::StatusCode::kInvalidArgument, "no port");
}

TEST_F(EnrolmentTest, AServerThatNeverAnswersCostsTheTimeoutOnly) {
  nobody_.Listen();
  const absl::Status silent = Fetch(nobody_.address(), absl::Milliseconds(20)).status();
  ExpectMessage(silent, absl::StatusCode::kUnavailable, "it did not answer in time");
  EXPECT_EQ(AbsenceIn(silent), Absence::kNone);
}

TEST_F(EnrolmentTest, ATokenIsExchangedForACredentialWithANewKey) {
  const std::string token = coordinator_.JoinToken({security::Role::kWorker, ""});
  const auto enrolled =
      EnrolByToken(coordinator_.address(), token, {.worker = "w", .host = "h"}, kEnrolPatience);
  ASSERT_TRUE(enrolled.ok()) << enrolled.status();
  EXPECT_TRUE(Certificate::FromPem(enrolled->chain)->Fits(*KeyPair::FromPem(enrolled->key)));
  EXPECT_EQ(enrolled->authorities, coordinator_.authority().certificate().ToPem());
  EXPECT_THAT(coordinator_.heard(), ElementsAre("enroll worker w host h by nobody"));
}

TEST_F(EnrolmentTest, ATokenIsShownToNoOtherCoordinator) {
  FakeAccess other;
  const std::string token = coordinator_.JoinToken(kAnn);
  const auto enrolled = EnrolByToken(other.address(), token, {}, kEnrolPatience);
  EXPECT_EQ(enrolled.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(other.heard(), IsEmpty());
}

TEST_F(EnrolmentTest, ATextThatIsNoTokenIsNotShownInFull) {
  const auto enrolled =
      EnrolByToken(coordinator_.address(), "dpj1.secret-secret", {}, kEnrolPatience);
  ExpectMessage(enrolled.status(), absl::StatusCode::kInvalidArgument, "'dpctl token' prints one");
  EXPECT_THAT(std::string(enrolled.status().message()), Not(HasSubstr("secret-secret")));
}

TEST_F(EnrolmentTest, AnAdministratorNeedsNoToken) {
  Connection connection(
      coordinator_.address(),
      Credentials::Of(coordinator_.CredentialOf({security::Role::kAdmin, "root"})));
  const auto enrolled =
      EnrolByAdministrator(connection, {.worker = "w", .host = "h"}, kEnrolPatience);
  ASSERT_TRUE(enrolled.ok()) << enrolled.status();
  EXPECT_TRUE(Certificate::FromPem(enrolled->chain)->Fits(*KeyPair::FromPem(enrolled->key)));
  EXPECT_THAT(coordinator_.heard(), ElementsAre("enroll worker w host h by admin root"));
}

TEST_F(EnrolmentTest, ARefusalIsPassedOn) {
  coordinator_.RefuseWith(absl::FailedPreconditionError("the token was used"));
  const auto enrolled =
      EnrolByToken(coordinator_.address(), coordinator_.JoinToken(kAnn), {}, kEnrolPatience);
  EXPECT_EQ(enrolled.status(), absl::FailedPreconditionError("the token was used"));
}

TEST_F(EnrolmentTest, ARenewedCertificateIsOfTheSameKeyAndLastsLonger) {
  const Credential old = coordinator_.CredentialOf(kAnn, absl::Now() - absl::Hours(12));
  Connection connection(coordinator_.address(), Credentials::Of(old));
  const auto renewed = Renew(connection, old, kEnrolPatience);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(renewed->key, old.key);
  EXPECT_GT(Certificate::FromPem(renewed->chain)->not_after(),
            Certificate::FromPem(old.chain)->not_after());
  EXPECT_TRUE(Certificate::FromPem(renewed->chain)->Fits(*KeyPair::FromPem(old.key)));
  EXPECT_THAT(coordinator_.heard(), ElementsAre("renew by user ann"));
}

TEST_F(EnrolmentTest, ARenewalIsDueWhenHalfTheLifeIsOver) {
  const absl::Time made = absl::Now();
  const Credential credential = coordinator_.CredentialOf(kAnn, made);  // for a day
  EXPECT_FALSE(*RenewalDue(credential, made + absl::Hours(11)));
  EXPECT_TRUE(*RenewalDue(credential, made + absl::Hours(13)));
  EXPECT_TRUE(*RenewalDue(credential, made + absl::Hours(25)));
  EXPECT_FALSE(RenewalDue({.authorities = "x", .token = "rank"}, made).ok());
}

}  // namespace
}  // namespace dp::client
