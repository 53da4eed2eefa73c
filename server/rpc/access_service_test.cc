#include <future>
#include <memory>
#include <string>
#include <utility>

#include "base/security/certificate.h"
#include "base/security/token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/convert/time.h"
#include "server/rpc/testing/access_fixture.h"
#include "server/rpc/testing/services_fixture.h"

namespace dp::server {
namespace {

using grpc::StatusCode;
using security::Identity;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const Identity kAnn{security::Role::kUser, "ann"};

class AccessServiceTest : public AccessFixture {};

TEST_F(AccessServiceTest, AJoinTokenIsExchangedForACertificateThatCounts) {
  const auto enrolled = Enroll(*nobody_, Token("user", "ann"));
  ASSERT_TRUE(enrolled.ok()) << enrolled.status.error_message();
  EXPECT_EQ(enrolled->certificate().authorities(), authority_.certificates().certificate().ToPem());
  EXPECT_EQ(WhoIs(*As(CredentialsIn(enrolled->certificate()))), "user ann");
}

TEST_F(AccessServiceTest, ATokenIsGoodForAsManyUsesAsItSays) {
  const std::string token = Token("worker", "", 2);
  EXPECT_TRUE(Enroll(*nobody_, token, "a").ok());
  EXPECT_TRUE(Enroll(*nobody_, token, "b").ok());
  const auto third = Enroll(*nobody_, token, "c");
  EXPECT_EQ(third.status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(third.status.error_message(), HasSubstr("2 uses"));
  EXPECT_TRUE(Enroll(*nobody_, Token("worker", "", 0), "c").ok());
}

TEST_F(AccessServiceTest, APersonsTokenCannotBeReplayed) {
  const std::string token = Token("user", "ann", 0);  // 0 is one, for people
  EXPECT_TRUE(Enroll(*nobody_, token).ok());
  EXPECT_EQ(Enroll(*nobody_, token).status.error_code(), StatusCode::FAILED_PRECONDITION);
}

TEST_F(AccessServiceTest, ATokenOfAnotherCoordinatorDoesNotCount) {
  const std::string token = other_authority_.JoinToken(kAnn, 1, absl::Now(), absl::Hours(1));
  const auto enrolled = Enroll(*nobody_, token);
  EXPECT_EQ(enrolled.status.error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(enrolled.status.error_message(), HasSubstr("not given out by this coordinator"));
}

TEST_F(AccessServiceTest, AnExpiredTokenDoesNotCount) {
  const absl::Time then = absl::Now() - absl::Hours(2);
  const auto enrolled = Enroll(*nobody_, authority_.JoinToken(kAnn, 1, then, absl::Hours(1)));
  EXPECT_EQ(enrolled.status.error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(enrolled.status.error_message(), HasSubstr("expired"));
}

TEST_F(AccessServiceTest, AWorkerWithoutANameIsNamedAfterItsHost) {
  const std::string token = Token("worker", "", 0);
  EXPECT_EQ(NameIn(Enroll(*nobody_, token, "", "node7")), "worker node7");
  EXPECT_EQ(NameIn(Enroll(*nobody_, token, "", "node7")), "worker node7-2");
  // A worker that named itself has its name too, as long as it is connected.
  ASSERT_TRUE(As({Role::kWorker, "node8"})->Register("node8", 1).ok());
  EXPECT_EQ(NameIn(Enroll(*nobody_, token, "", "node8")), "worker node8-2");
}

TEST_F(AccessServiceTest, ATokenForOneWorkerIsForNoOther) {
  const std::string token = Token("worker", "a");
  const auto other = Enroll(*nobody_, token, "b");
  EXPECT_EQ(other.status.error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(other.status.error_message(), HasSubstr("for worker a, and not for b; "));
  EXPECT_THAT(Enroll(*nobody_, token, "").status.error_message(), HasSubstr("with --name a"));
  EXPECT_EQ(NameIn(Enroll(*nobody_, token, "a")), "worker a");
}

TEST_F(AccessServiceTest, AWorkersTokenMakesNoPerson) {
  EXPECT_EQ(NameIn(Enroll(*nobody_, Token("worker", "", 0), "ann")), "worker ann");
  const auto person = Enroll(*nobody_, Token("user", "ann"), "other");
  EXPECT_EQ(NameIn(person), "user ann");
}

TEST_F(AccessServiceTest, TheUnusedTokenOfARevokedPersonDoesNotCount) {
  const std::string before = Token("user", "ann");
  Revoke(kAnn);
  const auto enrolled = Enroll(*nobody_, before);
  EXPECT_EQ(enrolled.status.error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(enrolled.status.error_message(),
              AllOf(HasSubstr("token is void, because the access of user ann was revoked"),
                    Not(HasSubstr("certificate"))));
  EXPECT_EQ(NameIn(Enroll(*nobody_, Token("user", "ann"))), "user ann");
}

TEST_F(AccessServiceTest, ACertificateMadeAfterARevocationIsYoungerThanIt) {
  Revoke(kAnn);
  const absl::Time revoked_by = absl::Now();
  const auto enrolled = Enroll(*nobody_, Token("user", "ann"));
  const auto certificate = security::Certificate::FromPem(enrolled->certificate().chain());
  ASSERT_TRUE(certificate.ok()) << enrolled.status.error_message();
  // Others seem to be five minutes older than they are.
  EXPECT_GT(certificate->not_before(), revoked_by - absl::Seconds(1));
}

TEST_F(AccessServiceTest, ARenewedCertificateWorksAndLastsLonger) {
  const absl::Time then = absl::Now() - absl::Hours(24);
  const auto old = authority_.Issue(key_.SigningRequest(), kAnn, then);
  const auto ann = As(Showing({key_.ToPem(), old->chain}));
  const auto renewed = Renew(*ann);
  ASSERT_TRUE(renewed.ok()) << renewed.status.error_message();
  const auto again = Ask(*As(CredentialsIn(renewed->certificate())));
  EXPECT_EQ(again->name(), "ann");
  EXPECT_GT(FromProto(again->expires_at()), FromProto(Ask(*ann)->expires_at()));
}

TEST_F(AccessServiceTest, OnlyTheHolderOfACertificateOfThisCoordinatorRenewsIt) {
  EXPECT_EQ(Renew(*nobody_).status.error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Renew(*As(Revoked(kAnn))).status.error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(NameIn(Renew(*As({Role::kWorker, "w"}))), "worker w");
}

TEST_F(AccessServiceTest, ARenewedCertificateHasTheIdentityThatWasCertified) {
  Grant("ann", Role::kViewer);
  const auto ann = As(kAnn);
  EXPECT_EQ(WhoIs(*ann), "viewer ann");
  EXPECT_EQ(NameIn(Renew(*ann)), "user ann");
}

TEST_F(AccessServiceTest, AnOpenCallEndsWhenItsCallerIsRevoked) {
  const auto ann = As(kAnn);
  const auto job = ann->Submit(ClusterClient::AJob("job"), "request")->job();
  auto watch = std::async(std::launch::async, [&] {
    v1::WatchJobRequest request;
    request.set_job(job.id());
    request.set_since(job.version());
    request.mutable_timeout()->set_seconds(60);
    return ann->Call(ann->jobs(), &v1::Jobs::Stub::Watch, request, absl::Seconds(60)).status;
  });
  AwaitParked(1);
  Revoke(kAnn);
  const grpc::Status ended = watch.get();
  EXPECT_EQ(ended.error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(ended.error_message(), HasSubstr("was revoked"));
}

TEST_F(AccessServiceTest, OnlyAnAdministratorEnrollsWorkersWithoutAToken) {
  EXPECT_EQ(NameIn(Enroll(*admin_, "", "w")), "worker w");
  EXPECT_EQ(Enroll(*As(kAnn), "", "w").status.error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Enroll(*nobody_, "", "w").status.error_code(), StatusCode::UNAUTHENTICATED);
  Grant("root", Role::kUser);
  EXPECT_EQ(Enroll(*admin_, "", "w").status.error_code(), StatusCode::PERMISSION_DENIED);
}

TEST_F(AccessServiceTest, TheNameOfAConnectedWorkerIsGivenToNobodyElse) {
  ASSERT_TRUE(As({Role::kWorker, "w"})->Register("w", 1).ok());
  const auto taken = Enroll(*nobody_, Token("worker", ""), "w");
  EXPECT_EQ(taken.status.error_code(), StatusCode::ALREADY_EXISTS);
  EXPECT_THAT(taken.status.error_message(),
              HasSubstr("worker name w is taken: the dp-worker on host host-w"));
}

TEST_F(AccessServiceTest, GrantGivesARoleAndATokenForIt) {
  v1::GrantRequest request;
  request.set_name("ann");
  request.set_role("viewer");
  const auto granted = admin_->Call(admin_->access(), &v1::Access::Stub::Grant, request);
  ASSERT_TRUE(granted.ok()) << granted.status.error_message();
  EXPECT_EQ(WhoIs(*As(kAnn)), "viewer ann");
  EXPECT_EQ(NameIn(Enroll(*nobody_, granted->token())), "viewer ann");
}

TEST_F(AccessServiceTest, AGrantLocksNoAdministratorOut) {
  const auto grant = [](ClusterClient& by, const std::string& name, const std::string& role) {
    v1::GrantRequest request;
    request.set_name(name);
    request.set_role(role);
    return by.Call(by.access(), &v1::Access::Stub::Grant, request).status.error_message();
  };
  const auto eve = As({Role::kAdmin, "eve"});
  EXPECT_THAT(grant(*eve, "admin", "user"), HasSubstr("admin is the administrator whose"));
  EXPECT_THAT(grant(*eve, "eve", "viewer"), HasSubstr("eve would take the role"));
  EXPECT_EQ(grant(*eve, "admin", "admin"), "");
  EXPECT_EQ(WhoIs(*eve), "admin eve");
  EXPECT_EQ(grant(*As({Role::kAdmin, "bob"}), "eve", "viewer"), "");
  EXPECT_EQ(WhoIs(*eve), "viewer eve");
}

TEST_F(AccessServiceTest, RevokeEndsThePersonOrTheWorkerOfTheName) {
  const auto ann = As(kAnn);
  const auto worker = As({Role::kWorker, "ann"});
  v1::RevokeRequest request;
  request.set_name("ann");
  request.set_worker(true);
  EXPECT_TRUE(admin_->Call(admin_->access(), &v1::Access::Stub::Revoke, request).ok());
  EXPECT_EQ(WhoIs(*ann), "user ann");
  EXPECT_THAT(WhoIs(*worker), HasSubstr("was revoked"));
  request.set_worker(false);
  EXPECT_TRUE(admin_->Call(admin_->access(), &v1::Access::Stub::Revoke, request).ok());
  EXPECT_THAT(WhoIs(*ann), HasSubstr("was revoked"));
}

TEST_F(AccessServiceTest, TheDecisionsAreListed) {
  Grant("ann", Role::kViewer);
  Revoke({Role::kWorker, "w"});
  const auto listed = admin_->Call(admin_->access(), &v1::Access::Stub::ListHolders, {});
  ASSERT_EQ(listed->holders_size(), 2);
  EXPECT_EQ(listed->holders(0).name() + listed->holders(0).role(), "annviewer");
  EXPECT_FALSE(listed->holders(0).worker() || listed->holders(0).has_revoked_at());
  EXPECT_EQ(listed->holders(1).name(), "w");
  EXPECT_TRUE(listed->holders(1).worker() && listed->holders(1).has_revoked_at());
}

TEST_F(AccessServiceTest, ARevocationSaysWhetherAnybodyOfThatNameWasOnRecord) {
  const auto unknown = [this](const std::string& name, bool worker = false) {
    v1::RevokeRequest request;
    request.set_name(name);
    request.set_worker(worker);
    return admin_->Call(admin_->access(), &v1::Access::Stub::Revoke, request)->unknown();
  };
  ASSERT_TRUE(As({Role::kWorker, "registered"})->Register("registered", 1).ok());
  ASSERT_TRUE(Enroll(*nobody_, Token("worker", "", 0), "joined").ok());
  ASSERT_TRUE(Enroll(*nobody_, Token("user", "logged-in")).ok());
  ASSERT_TRUE(As({Role::kUser, "owner"})->Submit(ClusterClient::AJob("job"), "request").ok());
  Grant("granted", Role::kViewer);
  EXPECT_FALSE(unknown("registered", true) || unknown("joined", true));
  EXPECT_FALSE(unknown("logged-in") || unknown("owner") || unknown("granted") || unknown("admin"));
  EXPECT_TRUE(unknown("logged") && unknown("joined") && unknown("owner", true));
  EXPECT_FALSE(unknown("logged") || unknown("owner", true));  // it is by now
}

TEST_F(AccessServiceTest, WhoHasJoinedAgainSinceARevocationIsListedSo) {
  const auto joined = [this] {
    return admin_->Call(admin_->access(), &v1::Access::Stub::ListHolders, {})
        ->holders(0)
        .has_joined_at();
  };
  Revoke({Role::kWorker, "w"});
  EXPECT_FALSE(joined());
  ASSERT_TRUE(Enroll(*nobody_, Token("worker", "w"), "w").ok());
  EXPECT_TRUE(joined());
  Revoke({Role::kWorker, "w"});
  EXPECT_FALSE(joined());
}

TEST_F(AccessServiceTest, RefusedCallsAreListedForAdministrators) {
  const auto ann = As(kAnn);
  const auto list = [](ClusterClient& caller) {
    return caller.Call(caller.access(), &v1::Access::Stub::ListRefusals, {});
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(list(*ann).status.error_code(), StatusCode::PERMISSION_DENIED);
  }
  const auto listed = list(*admin_);
  ASSERT_EQ(listed->refusals_size(), 1);
  const v1::Refusal& refusal = listed->refusals(0);
  EXPECT_EQ(refusal.caller() + " " + refusal.rpc(), "user ann Access.ListRefusals");
  EXPECT_EQ(refusal.count(), 2u);
  EXPECT_THAT(refusal.peer(), HasSubstr("127.0.0.1"));
}

TEST_F(AccessServiceTest, ARefusalForARoleNamesThoseThatMayAndTheGrant) {
  const auto ann = As({Role::kViewer, "ann"});
  v1::CancelRequest cancel;
  cancel.set_job(1);
  EXPECT_EQ(ann->Call(ann->jobs(), &v1::Jobs::Stub::Cancel, cancel).status.error_message(),
            "viewer ann may not call Jobs.Cancel: it is for administrators and users, and an "
            "administrator can give that role: dpctl grant user ann");
  EXPECT_THAT(ann->Call(ann->access(), &v1::Access::Stub::ListHolders, {}).status.error_message(),
              HasSubstr(": it is for administrators, and an administrator can give that role: "
                        "dpctl grant admin ann"));
}

TEST_F(AccessServiceTest, ARefusalNamesTheRoleThatCountsAndNoOther) {
  Grant("backup", Role::kViewer);
  const auto backup = As({Role::kUser, "backup"});
  v1::CancelRequest cancel;
  cancel.set_job(1);
  EXPECT_THAT(backup->Call(backup->jobs(), &v1::Jobs::Stub::Cancel, cancel).status.error_message(),
              AllOf(StartsWith("viewer backup may not call Jobs.Cancel: it is for"),
                    Not(HasSubstr("user backup may"))));
}

TEST_F(AccessServiceTest, AWrongTokenIsARefusal) {
  EXPECT_FALSE(Enroll(*nobody_, "dpj1.a.b").ok());
  const std::string used = Token("user", "ann");
  EXPECT_TRUE(Enroll(*nobody_, used).ok());
  EXPECT_FALSE(Enroll(*nobody_, used).ok());
  const auto listed = admin_->Call(admin_->access(), &v1::Access::Stub::ListRefusals, {});
  ASSERT_EQ(listed->refusals_size(), 2);
  EXPECT_THAT(listed->refusals(0).reason(), HasSubstr("not given out"));
  EXPECT_THAT(listed->refusals(1).reason(), HasSubstr("1 use"));
}

TEST_F(AccessServiceTest, ACallerWhoMayNotEnrollLearnsNothingAboutTheRequest) {
  EXPECT_EQ(Enroll(*As(kAnn), "", "no name").status.error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Enroll(*admin_, "", "no name").status.error_code(), StatusCode::INVALID_ARGUMENT);
  const auto listed = admin_->Call(admin_->access(), &v1::Access::Stub::ListRefusals, {});
  ASSERT_EQ(listed->refusals_size(), 2);
  EXPECT_EQ(listed->refusals(0).caller(), "user ann");
  EXPECT_EQ(listed->refusals(1).caller(), "admin root");
}

class InsecureAccessTest : public ServicesFixture {};

// Otherwise they would keep their access when plain text is no longer served.
TEST_F(InsecureAccessTest, NobodyGetsCertificatesOrTokensInPlainText) {
  v1::EnrollRequest enroll;
  enroll.set_name("w");
  const std::string token = security::TokenKey::Make().JoinToken(
      {.expires_at = absl::Now() + absl::Hours(1), .fingerprint = std::string(64, 'a')});
  for (const std::string& with : {std::string(), token}) {
    enroll.set_token(with);
    const auto enrolled = client_->Call(client_->access(), &v1::Access::Stub::Enroll, enroll);
    EXPECT_EQ(enrolled.status.error_code(), StatusCode::PERMISSION_DENIED);
  }
  v1::CreateTokenRequest create;
  create.set_role("worker");
  const auto made = client_->Call(client_->access(), &v1::Access::Stub::CreateToken, create);
  EXPECT_THAT(made.status.error_message(), HasSubstr("in plain text nobody proves"));
  const auto who = client_->Call(client_->access(), &v1::Access::Stub::WhoAmI, {});
  EXPECT_EQ(who->role(), "insecure");
  EXPECT_FALSE(who->has_expires_at());
}

TEST_F(InsecureAccessTest, AJobThatCameInPlainTextBelongsToNobody) {
  v1::SubmitRequest request;
  request.set_request_id("request");
  request.set_user("me");
  *request.mutable_spec() = ClusterClient::AJob("job", 1);
  const auto submitted = client_->Call(client_->jobs(), &v1::Jobs::Stub::Submit, request);
  EXPECT_EQ(submitted->job().owner(), "legacy");
  EXPECT_EQ(submitted->job().user(), "me");
}

}  // namespace
}  // namespace dp::server
