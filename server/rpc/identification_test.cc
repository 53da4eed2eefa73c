#include <future>
#include <memory>
#include <string>

#include "base/security/testing/foreign_certificate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/convert/time.h"
#include "server/rpc/testing/tls_fixture.h"

// How server/access/gate tells callers apart, over real connections.

namespace dp::server {
namespace {

using grpc::StatusCode;
using security::Identity;
using ::testing::HasSubstr;

const Identity kUser{security::Role::kUser, "ann"};

class IdentificationTest : public TlsFixture {
 protected:
  // As "user ann"; else the code and message of the error.
  static std::string WhoIs(ClusterClient& caller) {
    const auto answer = caller.Call(caller.access(), &v1::Access::Stub::WhoAmI, {});
    if (answer.ok()) return answer->role() + " " + answer->name();
    return absl::StrCat(answer.status.error_code(), ": ", answer.status.error_message());
  }
  std::string WhoIs(const Credentials& credentials) { return WhoIs(*As(credentials)); }
  // Whether the error has this code.
  static testing::Matcher<std::string> IsError(StatusCode code) {
    return testing::StartsWith(absl::StrCat(code, ": "));
  }
  // A job of one rank, and the claims of that rank.
  security::RankClaims RankOfAJob() {
    const auto worker = As({Role::kWorker, "w"});
    EXPECT_TRUE(worker->Register("w", 1).ok());
    const auto job = As(kUser)->Submit(ClusterClient::AJob("job"), "request")->job();
    return {{JobId(job.id()), Generation(1), 0}, FromProto(job.submitted_at())};
  }
};

TEST_F(IdentificationTest, ACertificateSaysWhoCalls) {
  EXPECT_EQ(WhoIs(CredentialsOf(kUser)), "user ann");
  EXPECT_EQ(WhoIs(CredentialsOf({Role::kWorker, "w"})), "worker w");
  EXPECT_EQ(WhoIs(CredentialsOf({Role::kAdmin, "o'neill/x"})), "admin o'neill/x");
}

TEST_F(IdentificationTest, ARequestIdShowsNoJobOfSomebodyElse) {
  EXPECT_TRUE(As(kUser)->Submit(ClusterClient::AJob("job"), "request").ok());
  const auto bob = As({Role::kUser, "bob"})->Submit(ClusterClient::AJob("other"), "request");
  EXPECT_EQ(bob.status.error_code(), StatusCode::ALREADY_EXISTS);
  EXPECT_FALSE(bob->has_job());
}

TEST_F(IdentificationTest, ACertificateThatIsNotTrustedMakesNoConnection) {
  EXPECT_THAT(WhoIs(Expired(kUser)), IsError(StatusCode::UNAVAILABLE));
  EXPECT_THAT(WhoIs(OfAnotherAuthority(kUser)), IsError(StatusCode::UNAVAILABLE));
}

TEST_F(IdentificationTest, ARevokedCertificateDoesNotCount) {
  const std::string who = WhoIs(Revoked(kUser));
  EXPECT_THAT(who, IsError(StatusCode::UNAUTHENTICATED));
  EXPECT_THAT(who, HasSubstr("the certificate of user ann was revoked"));
}

TEST_F(IdentificationTest, ACertificateWithTwoIdentitiesDoesNotCount) {
  const security::KeyPair key = security::KeyPair::Make();
  const std::string both = "URI:spiffe://dp/user/ann,URI:spiffe://dp/admin/ann";
  const auto certificate =
      ForeignCertificate(authority_.certificates(), key, {.alternative = both});
  const std::string who = WhoIs(Showing({key.ToPem(), certificate.ToPem()}));
  EXPECT_THAT(who, IsError(StatusCode::UNAUTHENTICATED));
  EXPECT_THAT(who, HasSubstr("more than one identity"));
}

// A certificate for a few seconds, over one connection.
TEST_F(IdentificationTest, AConnectionThatOutlivesItsCertificateMakesNoMoreCalls) {
  std::string who;
  std::unique_ptr<ClusterClient> ann;
  for (int seconds = 1; who != "user ann"; seconds *= 2) {  // long enough for a handshake
    const security::KeyPair key = security::KeyPair::Make();
    const auto issued = authority_.certificates().Issue(
        key.SigningRequest(), {.identity = kUser, .lifetime = absl::Seconds(seconds)}, absl::Now());
    ann = As(Showing({key.ToPem(), issued->ToPem()}));
    who = WhoIs(*ann);
  }
  const absl::Time deadline = absl::Now() + kLong;
  while (who == "user ann" && absl::Now() < deadline) who = WhoIs(*ann);
  EXPECT_THAT(who, IsError(StatusCode::UNAUTHENTICATED));
  EXPECT_THAT(who, HasSubstr("the certificate of user ann expired at"));
}

// Answers hold names, and clients cannot read one that is not UTF-8.
TEST_F(IdentificationTest, ACertificateWhoseNameCannotBeShownDoesNotCount) {
  const security::KeyPair key = security::KeyPair::Make();
  for (const char* name : {"URI:spiffe://dp/user/a%ff", "URI:spiffe://dp/user/a%0a"}) {
    const auto certificate =
        ForeignCertificate(authority_.certificates(), key, {.alternative = name});
    EXPECT_THAT(WhoIs(Showing({key.ToPem(), certificate.ToPem()})),
                IsError(StatusCode::UNAUTHENTICATED));
  }
}

TEST_F(IdentificationTest, WithoutACredentialACallerMayDoNothing) {
  const std::string who = WhoIs(Nobody());
  EXPECT_THAT(who, IsError(StatusCode::UNAUTHENTICATED));
  EXPECT_THAT(who, HasSubstr("needs a credential"));
}

TEST_F(IdentificationTest, ACoordinatorsCertificateIsNoCallers) {
  EXPECT_THAT(WhoIs(CredentialsOf({Role::kCoordinator, "dp"})),
              IsError(StatusCode::PERMISSION_DENIED));
}

TEST_F(IdentificationTest, ARankIsKnownByItsToken) {
  const security::RankClaims rank = RankOfAJob();
  EXPECT_EQ(WhoIs(WithToken(rank)), "rank 0 of job 1");
  EXPECT_TRUE(As(WithToken(rank))->Join(1, 0).ok());
}

TEST_F(IdentificationTest, ATokenThatWasNotMadeHereDoesNotCount) {
  const security::RankClaims rank = RankOfAJob();
  const std::string token = authority_.tokens().Token(rank);
  for (const std::string& wrong : {other_authority_.tokens().Token(rank), std::string("x"),
                                   std::string(), token.substr(0, token.size() - 1)}) {
    EXPECT_THAT(WhoIs(WithToken(wrong)), IsError(StatusCode::UNAUTHENTICATED)) << wrong;
  }
}

TEST_F(IdentificationTest, ATokenIsOfOneJobAlsoWhenItsNumberIsUsedAgain) {
  security::RankClaims rank = RankOfAJob();
  rank.job_submitted_at -= absl::Nanoseconds(1);
  const auto joined = As(WithToken(rank))->Join(1, 0);
  EXPECT_EQ(joined.status.error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(joined.status.error_message(), HasSubstr("not on record"));
}

TEST_F(IdentificationTest, ATokenIsOfOneRankOfOneGeneration) {
  security::RankClaims rank = RankOfAJob();
  EXPECT_EQ(As(WithToken(rank))->Join(1, 1).status.error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(As(WithToken(rank))->Join(2, 0).status.error_code(), StatusCode::PERMISSION_DENIED);
  rank.rank.generation = Generation(2);
  EXPECT_EQ(As(WithToken(rank))->Join(1, 0).status.error_code(), StatusCode::PERMISSION_DENIED);
}

// A stolen token is of no use once the job has gone on, also for a call that waits.
TEST_F(IdentificationTest, ATokenEndsWithItsGeneration) {
  const security::RankClaims rank = RankOfAJob();
  const auto thief = As(WithToken(rank));
  ASSERT_TRUE(thief->Join(1, 0).ok());
  auto waits = std::async(std::launch::async,
                          [&] { return thief->Await(1, "nobody sets this", kLong).status; });
  AwaitParked(1);
  const auto admin = As({Role::kAdmin, "root"});
  v1::RequeueRequest requeue;
  requeue.set_job(1);
  requeue.set_generation(1);
  ASSERT_TRUE(admin->Call(admin->jobs(), &v1::Jobs::Stub::Requeue, requeue).ok());
  const auto worker = As({Role::kWorker, "w"});
  ASSERT_TRUE(worker->Report(1, 1, 0, v1::RANK_STATE_EXITED, /*exit_code=*/1).ok());
  ASSERT_TRUE(worker->Report(1, 1, 0, v1::RANK_STATE_RELEASED).ok());
  EXPECT_FALSE(waits.get().ok());
  const absl::Time deadline = absl::Now() + kLong;
  while (admin->GetJob(1)->job().generation() < 2 && absl::Now() < deadline) continue;
  const auto joined = thief->Join(1, 0);
  EXPECT_EQ(joined.status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(joined.status.error_message(), HasSubstr("generation"));
  EXPECT_EQ(thief->Set(1, "key", "value", 1).status.error_code(), StatusCode::FAILED_PRECONDITION);
}

TEST_F(IdentificationTest, PlainTextIsNotServed) {
  EXPECT_THAT(WhoIs(grpc::InsecureChannelCredentials()), IsError(StatusCode::UNAVAILABLE));
}

class PlainTextBesideTlsTest : public IdentificationTest {
 protected:
  PlainTextBesideTlsTest() { plain_text_ = true; }
};

TEST_F(PlainTextBesideTlsTest, OnlyCallersInPlainTextMayDoEverything) {
  EXPECT_EQ(WhoIs(grpc::InsecureChannelCredentials()), "insecure ");
  EXPECT_EQ(WhoIs(CredentialsOf(kUser)), "user ann");
  EXPECT_THAT(WhoIs(Nobody()), IsError(StatusCode::UNAUTHENTICATED));
}

}  // namespace
}  // namespace dp::server
