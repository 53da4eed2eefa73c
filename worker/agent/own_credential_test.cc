#include "worker/agent/own_credential.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "base/security/certificate.h"
#include "base/security/local_credential.h"
#include "base/testing/scratch_dir.h"
#include "client/testing/fake_access.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

using security::Credential;
using security::Role;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class OwnCredentialTest : public testing::Test {
 protected:
  absl::StatusOr<std::string> Open(const IdentityFlags& flags) const {
    return OpenCredential(coordinator_.address(), state_, flags, pause_);
  }
  // Starts with a join token of this coordinator. An empty name: the coordinator chooses.
  IdentityFlags Joining(const std::string& name, const client::FakeAccess& coordinator) const {
    return {.join = coordinator.JoinToken({Role::kWorker, ""}),
            .applicant = {.worker = name, .host = "host"}};
  }
  IdentityFlags Joining(const std::string& name) const { return Joining(name, coordinator_); }
  // Starts with this credential.
  IdentityFlags Showing(const Credential& credential) const {
    EXPECT_TRUE(security::WriteCredential(given_, credential).ok());
    return {.credentials = {.dir = given_}, .applicant = {.host = "host"}};
  }
  Credential Worker(const std::string& name, absl::Time made_at = absl::Now()) const {
    return coordinator_.CredentialOf({Role::kWorker, name}, made_at);
  }
  // Puts it where an earlier daemon left it.
  void Leave(const Credential& credential) const {
    EXPECT_TRUE(security::WriteCredential(own_, credential).ok());
  }

  const ScratchDir scratch_;
  const std::string state_ = scratch_.path() / "state";
  const std::string own_ = state_ + "/credential";
  const std::string given_ = scratch_.path() / "given";
  client::FakeAccess coordinator_;
  mutable client::Pause pause_;
};

TEST_F(OwnCredentialTest, AShutdownEndsTheWaitForACredential) {
  pause_.Stop();
  // Nobody has left a credential for this address on this host.
  EXPECT_TRUE(absl::IsCancelled(Open({}).status()));
}

TEST_F(OwnCredentialTest, ADaemonJoinsOnceAndKeepsItsCertificateAndName) {
  EXPECT_EQ(*Open(Joining("w")), own_);
  const std::string chain = security::ReadCredential(own_)->chain;
  EXPECT_EQ(*Open(Joining("")), own_);
  EXPECT_EQ(*Open({}), own_);
  EXPECT_EQ(security::ReadCredential(own_)->chain, chain);
  EXPECT_EQ(*WorkerNameIn(own_), "w");
  EXPECT_THAT(coordinator_.heard(), ElementsAre("enroll worker w host host by nobody"));
}

TEST_F(OwnCredentialTest, ACredentialThatOthersCanChangeOrReadEndsTheDaemon) {
  Leave(Worker("w"));
  IdentityFlags given = Showing(Worker("g"));
  const IdentityFlags none;
  for (const auto& [path, flags] :
       {std::pair{own_ + "/tls.key", &none}, {given_ + "/tls.key", &given}}) {
    ASSERT_EQ(chmod(path.c_str(), 0644), 0);
    const absl::Status refused = Open(*flags).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << path;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("'chmod 600 " + path + "'"));
    std::filesystem::remove_all(own_);
  }
  given.credentials.accept_other_users = true;
  EXPECT_EQ(*Open(given), given_);
}

// Jobs that run as this user could use it.
TEST_F(OwnCredentialTest, AnAdministratorsCredentialThatTheDaemonsUserCanReadIsFound) {
  const std::string address = coordinator_.address();
  EXPECT_EQ(ReadableAdmin(address, ""), "");
  (void)Showing(Worker("w"));
  EXPECT_EQ(ReadableAdmin(address, given_), "");
  const std::string admin = scratch_.path() / "admin";
  ASSERT_TRUE(
      security::WriteCredential(admin, coordinator_.CredentialOf({Role::kAdmin, "admin"})).ok());
  EXPECT_EQ(ReadableAdmin(address, admin), admin);
  ASSERT_TRUE(security::LinkLocalCredential(address, admin).ok());
  EXPECT_EQ(ReadableAdmin(address, given_), admin);
  security::UnlinkLocalCredential(address, admin);
}

TEST_F(OwnCredentialTest, ATokenIsNotUsedWhereItsCredentialCannotBeKept) {
  std::filesystem::create_directory(state_);
  std::ofstream(own_) << "a file in place of the directory";
  EXPECT_EQ(Open(Joining("w")).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(coordinator_.heard(), IsEmpty());
}

TEST_F(OwnCredentialTest, ADaemonThatIsRenamedJoinsAgain) {
  Leave(Worker("old"));
  EXPECT_EQ(*Open(Joining("new")), own_);
  EXPECT_EQ(*WorkerNameIn(own_), "new");
}

TEST_F(OwnCredentialTest, ATokenOfAnotherClusterMeansThatOne) {
  const client::FakeAccess before;
  Leave(before.CredentialOf({Role::kWorker, "w"}));
  ASSERT_TRUE(Open(Joining("w")).ok());
  EXPECT_EQ(security::ReadCredential(own_)->authorities,
            coordinator_.authority().certificate().ToPem());
}

TEST_F(OwnCredentialTest, ATokenThatCannotBeReadIsAnErrorWhateverCertificateIsThere) {
  const client::FakeAccess before;
  Leave(before.CredentialOf({Role::kWorker, "w"}));
  for (const char* name : {"w", ""}) {
    IdentityFlags flags = Joining(name);
    flags.join = "junk";
    const absl::Status junk = Open(flags).status();
    EXPECT_EQ(junk.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(junk.message()), HasSubstr("'junk...' is no join token: "));
  }
  EXPECT_THAT(coordinator_.heard(), IsEmpty());
}

TEST_F(OwnCredentialTest, AnExpiredOrDamagedCertificateIsReplaced) {
  Credential damaged = Worker("w");
  damaged.chain = "damaged";
  for (const Credential& left : {Worker("w", absl::Now() - absl::Hours(48)), damaged,
                                 coordinator_.CredentialOf({Role::kUser, "w"})}) {
    Leave(left);
    EXPECT_EQ(*Open(Joining("w")), own_);
    EXPECT_EQ(*WorkerNameIn(own_), "w");
  }
  EXPECT_EQ(coordinator_.heard().size(), 3u);
}

TEST_F(OwnCredentialTest, ADaemonWhoseCertificateExpiredKeepsItsNameAndLogsWhy) {
  Leave(Worker("w", absl::Now() - absl::Hours(48)));
  testing::internal::CaptureStderr();
  EXPECT_EQ(*Open(Joining("")), own_);
  EXPECT_EQ(*WorkerNameIn(own_), "w");
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("event=credential_not_usable dir=" + own_ +
                             " reason=\"the certificate expired at "));
  EXPECT_THAT(log, HasSubstr("event=joined worker=w by=\"the join token\""));
}

TEST_F(OwnCredentialTest, ATokenForOneWorkerDecidesAboutTheName) {
  Leave(Worker("former", absl::Now() - absl::Hours(48)));
  EXPECT_EQ(
      *Open({.join = coordinator_.JoinToken({Role::kWorker, "w"}), .applicant = {.host = "host"}}),
      own_);
  EXPECT_EQ(*WorkerNameIn(own_), "w");
}

TEST_F(OwnCredentialTest, AnotherClusterDoesNotGetTheFormerName) {
  const client::FakeAccess before;
  Leave(before.CredentialOf({Role::kWorker, "w"}));
  ASSERT_TRUE(Open(Joining("")).ok());
  EXPECT_EQ(*WorkerNameIn(own_), "host");
  Leave(before.CredentialOf({Role::kWorker, "w"}, absl::Now() - absl::Hours(48)));
  ASSERT_TRUE(Open(Showing(coordinator_.CredentialOf({Role::kAdmin, "root"}))).ok());
  EXPECT_EQ(*WorkerNameIn(own_), "host");
}

TEST_F(OwnCredentialTest, ADaemonWhoseNameWasRevokedJoinsUnderAnother) {
  Leave(Worker("w", absl::Now() - absl::Hours(48)));
  coordinator_.RefuseWith(absl::UnauthenticatedError("the access of worker w was revoked"));
  EXPECT_FALSE(Open(Joining("")).ok());
  EXPECT_THAT(coordinator_.heard(), ElementsAre("enroll worker w host host by nobody",
                                                "enroll worker host host host by nobody"));
}

TEST_F(OwnCredentialTest, AWorkersCredentialFromElsewhereIsUsedAsItIs) {
  EXPECT_EQ(*Open(Showing(Worker("w"))), given_);
  EXPECT_THAT(coordinator_.heard(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(own_));
}

TEST_F(OwnCredentialTest, AnAdministratorsCredentialJoinsTheWorker) {
  EXPECT_EQ(*Open(Showing(coordinator_.CredentialOf({Role::kAdmin, "root"}))), own_);
  EXPECT_EQ(*WorkerNameIn(own_), "host");
  EXPECT_THAT(coordinator_.heard(), ElementsAre("enroll worker host host host by admin root"));
}

TEST_F(OwnCredentialTest, APersonWhoMayNotLetWorkersJoinIsSentForAToken) {
  coordinator_.RefuseWith(absl::PermissionDeniedError("user ann may not call Access.CreateToken"));
  const absl::Status refused =
      Open(Showing(coordinator_.CredentialOf({Role::kUser, "ann"}))).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(
      refused.message(),
      absl::StrCat("the certificate in ", given_,
                   " is that of user ann, who may not let workers join; ask an administrator "
                   "for a worker's token, which 'dpctl token worker' prints, and give it with "
                   "--join"));
}

// Its administrator's credential is where the programs of the same user look for it.
class LocalCoordinatorTest : public OwnCredentialTest {
 protected:
  LocalCoordinatorTest() {
    (void)Showing(coordinator_.CredentialOf({Role::kAdmin, "root"}));
    EXPECT_TRUE(security::LinkLocalCredential(coordinator_.address(), given_).ok());
  }
  ~LocalCoordinatorTest() override {
    std::filesystem::remove(security::LocalCredentialLinks() + "/" + coordinator_.address());
  }
};

TEST_F(LocalCoordinatorTest, ADaemonOfTheSameUserJoinsWithoutAnyFlag) {
  EXPECT_EQ(*Open({.applicant = {.host = "host"}}), own_);
  EXPECT_EQ(*Open({.applicant = {.host = "host"}}), own_);
  EXPECT_THAT(coordinator_.heard(), ElementsAre("enroll worker host host host by admin root"));
}

TEST_F(LocalCoordinatorTest, ADaemonWhoseCertificateExpiredKeepsItsName) {
  Leave(Worker("w", absl::Now() - absl::Hours(48)));
  EXPECT_EQ(*Open({.applicant = {.host = "host"}}), own_);
  EXPECT_EQ(*WorkerNameIn(own_), "w");
}

TEST_F(LocalCoordinatorTest, OneThatWasSetUpAnewIsJoinedAgain) {
  const client::FakeAccess before;
  Leave(before.CredentialOf({Role::kWorker, "w"}));
  EXPECT_EQ(*Open({.applicant = {.host = "host"}}), own_);
  EXPECT_EQ(security::ReadCredential(own_)->authorities,
            coordinator_.authority().certificate().ToPem());
}

TEST_F(OwnCredentialTest, ARefusalEndsTheAttempts) {
  for (const absl::Status& refusal :
       {absl::UnauthenticatedError("the token expired"), absl::PermissionDeniedError("not for ann"),
        absl::FailedPreconditionError("the token was used")}) {
    coordinator_.RefuseWith(refusal);
    testing::internal::CaptureStderr();
    EXPECT_EQ(Open(Joining("w")).status(), refusal);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("event=")));
  }
  EXPECT_EQ(coordinator_.heard().size(), 3u);
  EXPECT_FALSE(std::filesystem::exists(own_));
}

TEST_F(OwnCredentialTest, APersonsTokenIsRejectedBeforeItIsUsed) {
  Leave(Worker("w"));
  for (const std::string& state : {state_, state_ + "-fresh"}) {
    IdentityFlags flags = Joining("w");
    flags.join = coordinator_.JoinToken({Role::kUser, "bob"});
    const absl::Status person =
        OpenCredential(coordinator_.address(), state, flags, pause_).status();
    EXPECT_EQ(person.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(person.message()),
                HasSubstr("the token is for user bob, who logs in with it: 'dpctl login'; "));
    EXPECT_THAT(std::string(person.message()), HasSubstr("'dpctl token' prints"));
  }
  EXPECT_FALSE(std::filesystem::exists(state_ + "-fresh"));
  EXPECT_THAT(coordinator_.heard(), IsEmpty());
}

TEST_F(OwnCredentialTest, InPlainTextNoCredentialIsNeeded) {
  IdentityFlags flags = Showing(coordinator_.CredentialOf({Role::kAdmin, "root"}));
  flags.credentials.insecure = true;
  EXPECT_EQ(*Open(flags), "");
  EXPECT_THAT(coordinator_.heard(), IsEmpty());
}

TEST_F(OwnCredentialTest, OnlyAWorkersCertificateNamesTheWorker) {
  Leave(coordinator_.CredentialOf({Role::kUser, "ann"}));
  const absl::Status person = WorkerNameIn(own_).status();
  EXPECT_EQ(person.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(person.message()), HasSubstr("user ann"));
  EXPECT_FALSE(WorkerNameIn(given_).ok());
}

class CertificateRenewalTest : public OwnCredentialTest {
 protected:
  // Runs the renewal; if `awaits`, until another certificate is there.
  void RenewIn(const std::string& dir, bool awaits) {
    const std::string before = security::ReadCredential(dir)->chain;
    client::Connection connection(coordinator_.address(), *client::Credentials::FromDir(dir));
    const CertificateRenewal renewal(connection, dir, state_);
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (awaits && security::ReadCredential(dir)->chain == before) {
      ASSERT_LT(absl::Now(), deadline);
      std::this_thread::yield();
    }
  }
  static absl::Time ExpiresAt(const std::string& dir) {
    return security::Certificate::FromPem(security::ReadCredential(dir)->chain)->not_after();
  }
};

TEST_F(CertificateRenewalTest, ACertificateIsRenewedWhenHalfItsLifeIsOver) {
  const Credential old = Worker("w", absl::Now() - absl::Hours(13));
  Leave(old);
  RenewIn(own_, /*awaits=*/true);
  EXPECT_GT(ExpiresAt(own_), absl::Now() + absl::Hours(23));
  EXPECT_EQ(security::ReadCredential(own_)->key, old.key);
  EXPECT_EQ(*WorkerNameIn(own_), "w");
}

// Its thread looks once before it can end.
TEST_F(CertificateRenewalTest, AYoungCertificateIsNotRenewed) {
  Leave(Worker("w", absl::Now() - absl::Hours(11)));
  RenewIn(own_, /*awaits=*/false);
  EXPECT_THAT(coordinator_.heard(), IsEmpty());
}

TEST_F(CertificateRenewalTest, ACertificateFromElsewhereIsRenewedThere) {
  (void)Showing(Worker("w", absl::Now() - absl::Hours(13)));
  RenewIn(given_, /*awaits=*/false);
  EXPECT_THAT(coordinator_.heard(), IsEmpty());
}

}  // namespace
}  // namespace dp::worker
