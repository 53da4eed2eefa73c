// login and logout.

#include "base/security/certificate_authority.h"
#include "base/security/token.h"
#include "client/dpctl/testing/dpctl_test.h"

namespace dp::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LoginTest : public DpctlTest {
 protected:
  LoginTest() { logins_.enrolled = CredentialOf({security::Role::kUser, "ann"}); }

  security::Credential CredentialOf(const security::Identity& identity) const {
    const auto authority = security::CertificateAuthority::Make(now());
    const security::KeyPair key = security::KeyPair::Make();
    const auto issued = authority.Issue(key.SigningRequest(),
                                        {.identity = identity, .lifetime = absl::Hours(24)}, now());
    return {.authorities = authority.certificate().ToPem(),
            .chain = issued.value().ToPem(),
            .key = key.ToPem()};
  }
};

TEST_F(LoginTest, ATokenBecomesACredentialOnDisk) {
  const Result result = Dpctl("login --token t --coordinator host:1");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "logged in to host:1 as user ann until 2026-01-03T03:04:05+00:00\n");
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(logins_.asked, ElementsAre("host:1 t"));
  EXPECT_EQ(logins_.saved.at("/logins/host:1").key, logins_.enrolled->key);
}

TEST_F(LoginTest, AGrantedRoleCountsMoreThanTheTokens) {
  coordinator_.access.who_am_i.set_role("viewer");
  Result result = Dpctl("login --token t --coordinator host:1");
  EXPECT_EQ(result.out, "logged in to host:1 as viewer ann until 2026-01-03T03:04:05+00:00\n");
  EXPECT_THAT(result.err, HasSubstr("was for user ann, but an administrator has granted the role "
                                    "viewer, which counts"));
  coordinator_.access.who_am_i.set_role("user");
  err_.str("");
  result = Dpctl("login --token t --coordinator host:1");
  EXPECT_EQ(result.err, "");
}

TEST_F(LoginTest, ProgramsGetTheNameOrTheIdentity) {
  EXPECT_EQ(Dpctl("login --token t -o name").out, "ann\n");
  out_.str("");
  EXPECT_EQ(Dpctl("login --token t -o json").out,
            "{\n  \"role\": \"user\",\n  \"name\": \"ann\",\n"
            "  \"expiresAt\": \"2026-01-03T03:04:05+00:00\"\n}\n");
}

TEST_F(LoginTest, TheTokenMayComeFromStandardInput) {
  logins_.line = " t\r";
  EXPECT_EQ(Dpctl("login --coordinator host:1").code, 0);
  EXPECT_THAT(logins_.asked, ElementsAre("host:1 t"));
}

TEST_F(LoginTest, WithoutATokenTheErrorSaysWhereItMayCome) {
  EXPECT_EQ(Dpctl("login").code, 2);
  EXPECT_THAT(err_.str(), HasSubstr("there is no token; write it to standard input"));
  logins_.line = "";
  EXPECT_EQ(Dpctl("login").code, 2);
  EXPECT_THAT(err_.str(), HasSubstr("the first line of standard input is empty"));
  EXPECT_EQ(Dpctl("login --token ").code, 2);
  EXPECT_THAT(logins_.asked, IsEmpty());
}

TEST_F(LoginTest, AWorkersTokenIsNotUsedUp) {
  const std::string token =
      security::TokenKey::Make().JoinToken({.expires_at = now(),
                                            .fingerprint = std::string(64, 'a'),
                                            .identity = {security::Role::kWorker, "w"}});
  EXPECT_EQ(Dpctl("login --token " + token).code, 2);
  EXPECT_THAT(err_.str(), HasSubstr("the token is for a worker; give it to dp-worker --join"));
  EXPECT_THAT(logins_.asked, IsEmpty());
}

TEST_F(LoginTest, ATokenThatIsRejectedSavesNothing) {
  logins_.enrolled = absl::UnauthenticatedError("the token has expired");
  EXPECT_EQ(Dpctl("login --token t").code, 1);
  EXPECT_EQ(err_.str(), "dpctl: the token has expired\n");
  EXPECT_THAT(logins_.saved, IsEmpty());
}

TEST_F(LoginTest, WhereTheCredentialCannotBeWrittenNoTokenIsUsedUp) {
  logins_.prepared = absl::PermissionDeniedError("/logins/host:1 cannot be written");
  EXPECT_EQ(Dpctl("login --token t --coordinator host:1").code, 1);
  EXPECT_THAT(err_.str(), HasSubstr("/logins/host:1 cannot be written"));
  EXPECT_THAT(logins_.asked, IsEmpty());
  EXPECT_FALSE(logins_.accepts_other_users);
  Dpctl("login --token t --accept-other-users");
  EXPECT_TRUE(logins_.accepts_other_users);
}

TEST_F(LoginTest, WithoutAPlaceForTheCredentialNoTokenIsUsedUp) {
  logins_.has_home = false;
  EXPECT_EQ(Dpctl("login --token t").code, 1);
  EXPECT_EQ(err_.str(), "dpctl: no HOME\n");
  EXPECT_THAT(logins_.asked, IsEmpty());
  EXPECT_EQ(Dpctl("logout").code, 1);
}

TEST_F(LoginTest, ACredentialThatHidesTheLoginIsMentioned) {
  const Result result = Dpctl("login --token t --credentials /elsewhere");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("names another credential"));
}

TEST_F(LoginTest, LogoutRemovesTheLoginOfItsAddressOnly) {
  Dpctl("login --token t --coordinator a:1");
  Dpctl("login --token t --coordinator b:1");
  out_.str("");
  EXPECT_EQ(Dpctl("logout --coordinator a:1").out, "logged out of a:1\n");
  EXPECT_FALSE(logins_.saved.contains("/logins/a:1"));
  EXPECT_TRUE(logins_.saved.contains("/logins/b:1"));
}

TEST_F(LoginTest, LogoutWithoutALoginSaysSo) {
  const Result result = Dpctl("logout --coordinator a:1");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "dpctl: there was no login for a:1\n");
}

}  // namespace
}  // namespace dp::ctl
