#include "client/credentials.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "base/security/local_credential.h"
#include "base/security/testing/foreign_certificate.h"
#include "base/testing/scratch_dir.h"
#include "client/absence.h"
#include "client/connection.h"
#include "client/testing/fake_access.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::client {
namespace {

using security::Credential;
using security::Role;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kCallPatience = absl::Seconds(30);

// Nobody else's directories: those of the user are in the scratch directory.
class CredentialsTest : public testing::Test {
 protected:
  CredentialsTest() { setenv("XDG_CONFIG_HOME", (scratch_.path() / "config").c_str(), 1); }
  ~CredentialsTest() override {
    unsetenv("XDG_CONFIG_HOME");
    std::error_code ignored;
    std::filesystem::remove(link_, ignored);
  }
  // Writes the credential into this directory of the scratch directory.
  std::string Written(const Credential& credential, const std::string& name = "written") const {
    const std::string dir = scratch_.path() / name;
    EXPECT_TRUE(security::WriteCredential(dir, credential).ok());
    return dir;
  }
  std::string LoggedIn() const {
    const std::string dir = LoginDir(address_);
    EXPECT_TRUE(security::WriteCredential(dir, Ann()).ok());
    return dir;
  }
  Credential Ann() const { return coordinator_.CredentialOf({Role::kUser, "ann"}); }
  // The status of one call, which is recorded by `server`.
  static absl::Status CallTo(const FakeAccess& server, const Credentials& credentials) {
    Connection connection(server.address(), credentials);
    return connection.Call(&v1::Access::Stub::WhoAmI, {}, kCallPatience).status();
  }

  const ScratchDir scratch_;
  FakeAccess coordinator_;
  const std::string address_ = coordinator_.address();
  const std::string link_ = security::LocalCredentialLinks() + "/" + address_;
};

// gRPC reads them again before each connection.
TEST_F(CredentialsTest, TheCopiesOfACertificateLastAsLongAsItsChannels) {
  std::weak_ptr<CertificateCopies> copies;
  std::optional<Connection> connection;
  {
    const Credentials credentials = Credentials::FromDir(Written(Ann())).value();
    copies = credentials.copies();
    connection.emplace(coordinator_.address(), credentials);
  }
  EXPECT_FALSE(copies.expired());
  connection.reset();
  EXPECT_TRUE(copies.expired());
}

TEST_F(CredentialsTest, TheDirectoryThatWasGivenComesFirstThenTheLoginsThenTheLocalOne) {
  const std::string local = Written(Ann(), "local");
  ASSERT_TRUE(security::LinkLocalCredential(address_, local).ok());
  EXPECT_EQ(*FindCredentialDir(address_, ""), local);
  const std::string login = LoggedIn();
  EXPECT_EQ(*FindCredentialDir(address_, ""), login);
  EXPECT_EQ(*FindCredentialDir(address_, "/given"), "/given");
}

TEST_F(CredentialsTest, WithoutAnyTheErrorSaysHowToGetOne) {
  const absl::Status none = FindCredentialDir("192.0.2.1:7070", "").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(none.message()), HasSubstr("192.0.2.1:7070"));
  EXPECT_THAT(std::string(none.message()), HasSubstr("dpctl token"));
}

TEST_F(CredentialsTest, ALoginWithoutItsCertificateIsNamed) {
  const std::string login = LoggedIn();
  std::filesystem::remove(login + "/tls.crt");
  const absl::Status incomplete = FindCredentialDir(address_, "").status();
  EXPECT_EQ(incomplete.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(incomplete.message()), HasSubstr(login + " has no file tls.crt; log in"));
}

// It may start yet, and leave one.
TEST_F(CredentialsTest, WhereACoordinatorOfThisHostHasLeftNoneThereIsPerhapsNone) {
  const absl::Status none = FindCredentialDir("127.0.0.1:1", "").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(none.message()), HasSubstr("on this host listens on 127.0.0.1:1"));
  EXPECT_EQ(AbsenceIn(none), Absence::kNoneOnThisHost);
}

// Waiting would not help: it leaves no credential for this user.
TEST_F(CredentialsTest, WhereAnotherUsersCoordinatorListensOneMustLogIn) {
  const absl::Status not_mine = FindCredentials(address_, {}).status();
  EXPECT_EQ(not_mine.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(not_mine.message()),
              AllOf(HasSubstr("you are not logged in to the coordinator at " + address_),
                    HasSubstr("'dpctl grant user NAME'")));
  EXPECT_EQ(AbsenceIn(not_mine), Absence::kNone);
  EXPECT_EQ(AbsenceIn(FindCredentials("127.0.0.1:1", {}).status()), Absence::kNoneOnThisHost);
}

TEST_F(CredentialsTest, LoginsAreKeptBelowTheUsersConfiguration) {
  EXPECT_EQ(LoginDir("c:1"), (scratch_.path() / "config/dp/credentials/c:1").string());
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  setenv("XDG_CONFIG_HOME", "relative", 1);
  setenv("HOME", "/home/ann", 1);
  EXPECT_EQ(LoginDir("c:1"), "/home/ann/.config/dp/credentials/c:1");
  unsetenv("HOME");
  EXPECT_EQ(LoginDir("c:1"), "");
  if (!home.empty()) setenv("HOME", home.c_str(), 1);
}

TEST_F(CredentialsTest, AnExpiredCertificateIsNamedBeforeAnyConnection) {
  const std::string dir =
      Written(coordinator_.CredentialOf({Role::kUser, "ann"}, absl::Now() - absl::Hours(48)));
  const absl::Status expired = FindCredentials(address_, {.dir = dir}).status();
  EXPECT_EQ(expired.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(expired.message()), HasSubstr(dir + " expired at "));
  EXPECT_THAT(std::string(expired.message()), HasSubstr("; log in again, with a token"));
}

TEST_F(CredentialsTest, AnExpiredCertificateFromElsewhereIsRenewedThere) {
  const FakeAccess company;
  Credential of_company = company.CredentialOf({Role::kUser, "ann"}, absl::Now() - absl::Hours(48));
  of_company.authorities = Ann().authorities;
  Credential without_role = Ann();
  const auto key = *security::KeyPair::FromPem(without_role.key);
  without_role.chain = security::ForeignCertificate(coordinator_.authority(), key, {"ann"},
                                                    absl::Now() - absl::Hours(48))
                           .ToPem();
  for (const Credential& credential : {of_company, without_role}) {
    const absl::Status expired = FindCredentials(address_, {.dir = Written(credential)}).status();
    EXPECT_THAT(std::string(expired.message()),
                AllOf(HasSubstr("; the coordinator does not renew it, so renew it where it was "),
                      Not(HasSubstr("dpctl token"))));
  }
}

TEST_F(CredentialsTest, ADamagedFileIsNamedBeforeAnyConnection) {
  for (const auto& [file, name] : {std::pair{&Credential::authorities, "/ca.crt "},
                                   {&Credential::chain, "/tls.crt "},
                                   {&Credential::key, "/tls.key "}}) {
    Credential damaged = Ann();
    damaged.*file = "damaged";
    const std::string dir = Written(damaged);
    const absl::Status status = FindCredentials(address_, {.dir = dir}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr(dir + name));
  }
}

TEST_F(CredentialsTest, ACredentialThatOthersCanChangeOrReadIsRefusedUnlessTheyAreAccepted) {
  const std::string given = Written(Ann()), login = LoggedIn();
  for (const std::string& dir : {given, login}) {
    const CredentialFlags flags{.dir = dir == given ? given : ""};
    for (const auto& [file, mode] : {std::pair{"/tls.key", 0644}, {"/ca.crt", 0666}}) {
      ASSERT_EQ(chmod((dir + file).c_str(), static_cast<mode_t>(mode)), 0);
      const absl::Status refused = FindCredentials(address_, flags).status();
      EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << dir << file;
      EXPECT_THAT(std::string(refused.message()),
                  HasSubstr("the credential in " + dir + " is not used: " + dir + file));
      ASSERT_TRUE(FindCredentials(address_, {.dir = flags.dir, .accept_other_users = true}).ok());
      ASSERT_EQ(chmod((dir + file).c_str(), 0600), 0);
    }
    EXPECT_TRUE(FindCredentials(address_, flags).ok());
  }
}

TEST_F(CredentialsTest, InsecureNeedsNoFiles) {
  const auto insecure = FindCredentials(address_, {.dir = "/nowhere", .insecure = true});
  ASSERT_TRUE(insecure.ok()) << insecure.status();
  EXPECT_FALSE(CallTo(coordinator_, *insecure).ok());  // which speaks TLS
}

TEST_F(CredentialsTest, CallsShowTheCertificateOfTheDirectoryOrTheToken) {
  EXPECT_TRUE(CallTo(coordinator_, *FindCredentials(address_, {.dir = Written(Ann())})).ok());
  Credential rank{.authorities = Ann().authorities, .token = "t"};
  EXPECT_TRUE(CallTo(coordinator_, *Credentials::FromDir(Written(rank))).ok());
  EXPECT_TRUE(CallTo(coordinator_, Credentials::Of(rank)).ok());
  EXPECT_THAT(coordinator_.heard(),
              ElementsAre("whoami by user ann", "whoami by token t", "whoami by token t"));
}

TEST_F(CredentialsTest, ACoordinatorOfAnotherAuthorityIsNotCalled) {
  const FakeAccess other;
  const absl::Status status = CallTo(other, Credentials::Of(Ann()));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("is of another authority"));
  EXPECT_TRUE(other.heard().empty());
}

// Whoever holds a certificate of the cluster could otherwise pose as its coordinator.
TEST_F(CredentialsTest, ACoordinatorMustHoldItsRoleOrTheHostOfTheAddress) {
  security::Grant worker{.identity = {Role::kWorker, "w"},
                         .hosts = {"elsewhere.example.org"},
                         .lifetime = absl::Hours(1)};
  const FakeAccess impostor(worker);
  const absl::Status refused =
      CallTo(impostor, Credentials::Of(impostor.CredentialOf({Role::kUser, "ann"})));
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("its certificate names neither a coordinator of dp nor the host"));
  worker.hosts = {"127.0.0.1"};
  const FakeAccess by_host(worker);
  EXPECT_TRUE(CallTo(by_host, Credentials::Of(by_host.CredentialOf({Role::kUser, "ann"}))).ok());
}

TEST_F(CredentialsTest, WithoutCredentialsEveryCallGivesTheReason) {
  const absl::Status why = absl::UnauthenticatedError("log in first");
  EXPECT_EQ(CallTo(coordinator_, Credentials::Missing(why)), why);
  EXPECT_TRUE(coordinator_.heard().empty());
}

}  // namespace
}  // namespace dp::client
