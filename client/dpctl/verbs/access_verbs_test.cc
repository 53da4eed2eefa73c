// whoami, token, grant, revoke and access.

#include "base/labels.h"
#include "client/dpctl/testing/dpctl_test.h"

namespace dp::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class AccessVerbsTest : public DpctlTest {
 protected:
  AccessVerbsTest() {
    for (auto* expires_at :
         {access().who_am_i.mutable_expires_at(), access().token.mutable_expires_at(),
          access().granted.mutable_expires_at()}) {
      expires_at->set_seconds(1767326645);  // an hour from now
    }
    access().who_am_i.set_role("user");
    access().who_am_i.set_name("ann");
    access().token.set_token("dpj1.t");
    access().granted.set_token("dpj1.g");
  }
  FakeAccess& access() { return coordinator_.access; }
  const v1::CreateTokenRequest& Asked() { return access().token_requests.back(); }
};

TEST_F(AccessVerbsTest, WhoAmIShowsRoleNameAndEnd) {
  EXPECT_EQ(Dpctl("whoami").out, "user ann, with a certificate until 2026-01-02T04:04:05+00:00\n");
  out_.str("");
  EXPECT_EQ(Dpctl("whoami -o name").out, "ann\n");
  out_.str("");
  EXPECT_EQ(Dpctl("whoami -o json").out,
            "{\n  \"role\": \"user\",\n  \"name\": \"ann\",\n"
            "  \"expiresAt\": \"2026-01-02T04:04:05+00:00\"\n}\n");
}

TEST_F(AccessVerbsTest, WhoeverCallsInPlainTextIsNobody) {
  access().who_am_i.Clear();
  access().who_am_i.set_role("insecure");
  EXPECT_EQ(Dpctl("whoami").out, "insecure\n");
  out_.str("");
  EXPECT_THAT(Dpctl("whoami -o json").out, HasSubstr("\"name\": null,\n  \"expiresAt\": null\n"));
}

TEST_F(AccessVerbsTest, ATokenIsForAnyNumberOfWorkersForAnHour) {
  const Result result = Dpctl("token --coordinator 10.0.0.1:7070");
  EXPECT_EQ(result.out, "dp-worker --coordinator 10.0.0.1:7070 --join dpj1.t\n");
  EXPECT_EQ(result.err, "dpctl: the token is valid until 2026-01-02T04:04:05+00:00\n");
  EXPECT_EQ(Asked().role(), "worker");
  EXPECT_EQ(Asked().name(), "");
  EXPECT_EQ(Asked().uses(), 0);
  EXPECT_EQ(FromProto(Asked().valid_for()), absl::Hours(1));
}

TEST_F(AccessVerbsTest, TheLineOfATokenForOneWorkerHasItsName) {
  EXPECT_EQ(Dpctl("token worker node7 --coordinator 10.0.0.1:7070").out,
            "dp-worker --coordinator 10.0.0.1:7070 --name node7 --join dpj1.t\n");
}

TEST_F(AccessVerbsTest, ATokenOfAPersonIsUsedToLogIn) {
  EXPECT_EQ(Dpctl("token user ann --coordinator 10.0.0.1:7070 --valid-for 5m").out,
            "dpctl --coordinator 10.0.0.1:7070 login <<< dpj1.t\n");
  EXPECT_EQ(Asked().role(), "user");
  EXPECT_EQ(Asked().name(), "ann");
  EXPECT_EQ(Asked().uses(), 1);
  EXPECT_EQ(FromProto(Asked().valid_for()), absl::Minutes(5));
}

TEST_F(AccessVerbsTest, UsesAreLimitedByTheFlag) {
  EXPECT_EQ(Dpctl("token worker node7 --uses 3").code, 0);
  EXPECT_EQ(Asked().name(), "node7");
  EXPECT_EQ(Asked().uses(), 3);
  EXPECT_EQ(Dpctl("token user ann --uses 0").code, 2);
  EXPECT_THAT(err_.str(), HasSubstr("--uses 0 means any number, which is for workers only"));
  EXPECT_EQ(Dpctl("token --uses -1").code, 2);
  EXPECT_EQ(access().token_requests.size(), 1u);
}

TEST_F(AccessVerbsTest, ATokenForProgramsIsTheTokenAlone) {
  const Result result = Dpctl("token -o name");
  EXPECT_EQ(result.out, "dpj1.t\n");
  EXPECT_EQ(result.err, "");
  out_.str("");
  EXPECT_EQ(Dpctl("token user ann -o json").out,
            "{\n  \"role\": \"user\",\n  \"name\": \"ann\",\n  \"token\": \"dpj1.t\",\n"
            "  \"expiresAt\": \"2026-01-02T04:04:05+00:00\"\n}\n");
}

TEST_F(AccessVerbsTest, ALineThatOnlyThisHostCanUseIsMarked) {
  for (const std::string here :
       {"127.0.0.1:7070", "localhost:7070", "[::1]:7070", "0.0.0.0:7070", "[::]:7070"}) {
    err_.str("");
    EXPECT_THAT(Dpctl("token --coordinator " + here).err,
                HasSubstr(here + " reaches the coordinator from its own host only"));
  }
  err_.str("");
  EXPECT_THAT(Dpctl("token --coordinator node127:7070").err, Not(HasSubstr("own host")));
}

TEST_F(AccessVerbsTest, ATokenOfAPersonNeedsTheirName) {
  EXPECT_EQ(Dpctl("token admin").code, 2);
  EXPECT_THAT(err_.str(), HasSubstr("a token for the role admin needs a name"));
  EXPECT_EQ(Dpctl("token boss ann").code, 2);
  EXPECT_TRUE(access().token_requests.empty());
}

TEST_F(AccessVerbsTest, AGrantIsFollowedByTheLineToLogInWith) {
  EXPECT_EQ(Dpctl("grant viewer bob --coordinator 10.0.0.1:7070 --valid-for 2h").out,
            "role viewer is granted to bob, who logs in with:\n"
            "dpctl --coordinator 10.0.0.1:7070 login <<< dpj1.g\n");
  const v1::GrantRequest& grant = access().grants.at(0);
  EXPECT_EQ(grant.role(), "viewer");
  EXPECT_EQ(grant.name(), "bob");
  EXPECT_EQ(FromProto(grant.valid_for()), absl::Hours(2));
  out_.str("");
  EXPECT_EQ(Dpctl("grant viewer bob -o name").out, "dpj1.g\n");
}

// zsh takes brackets for a pattern.
TEST_F(AccessVerbsTest, TheLinesCanBePastedIntoAnyShell) {
  EXPECT_EQ(Dpctl("token worker --coordinator [::1]:7070").out,
            "dp-worker --coordinator '[::1]:7070' --join dpj1.t\n");
  out_.str("");
  EXPECT_EQ(Dpctl("token user ann --coordinator [::1]:7070").out,
            "dpctl --coordinator '[::1]:7070' login <<< dpj1.t\n");
}

TEST_F(AccessVerbsTest, WhereNoTokenLeadsAGrantSaysHowToCall) {
  access().granted.clear_token();
  const Result result = Dpctl("grant viewer bob --coordinator 10.0.0.1:7070");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out,
            "role viewer is granted to bob, who calls with:\n"
            "dpctl --coordinator 10.0.0.1:7070 --credentials DIR\n");
  EXPECT_THAT(result.err, HasSubstr("dpctl: there is no token, because the coordinator's "
                                    "certificate is from elsewhere; DIR holds"));
  EXPECT_THAT(result.err, Not(HasSubstr("valid until")));
  out_.str("");
  EXPECT_EQ(Dpctl("grant viewer bob -o name").out, "");
  EXPECT_THAT(Dpctl("grant viewer bob -o json").out,
              HasSubstr("\"token\": null,\n  \"expiresAt\": null"));
}

TEST_F(AccessVerbsTest, AGrantNamesWorkersOnWhichAUserCouldBecomeAdministrator) {
  for (const char* name : {"safe", "vm", "vm-2"}) {
    coordinator_.workers.add_workers()->set_name(name);
  }
  EXPECT_THAT(Dpctl("grant user bob").err, Not(HasSubstr("administrator")));
  for (const int open : {1, 2}) {
    (*coordinator_.workers.mutable_workers(open)->mutable_labels())[kAdminReadable] = "";
  }
  const std::string warning = Dpctl("grant user bob").err;
  EXPECT_THAT(warning,
              HasSubstr("jobs on vm, vm-2 run as a user who can read an administrator's "));
  EXPECT_THAT(warning, HasSubstr("so bob could become administrator; run dp-worker there as an "));
  err_.str("");
  EXPECT_THAT(Dpctl("grant viewer bob").err, Not(HasSubstr("administrator")));
  err_.str("");
  EXPECT_THAT(Dpctl("token user bob -o name").err, HasSubstr("so bob could become administrator"));
  err_.str("");
  EXPECT_THAT(Dpctl("token worker w").err, Not(HasSubstr("administrator")));
}

TEST_F(AccessVerbsTest, OnlyRolesOfPeopleAreGranted) {
  EXPECT_EQ(Dpctl("grant worker w").code, 2);
  EXPECT_EQ(Dpctl("grant user").code, 2);
  EXPECT_TRUE(access().grants.empty());
}

TEST_F(AccessVerbsTest, RevokeTellsPeopleFromWorkers) {
  EXPECT_EQ(Dpctl("revoke ann").out, "access of person ann is revoked\n");
  out_.str("");
  EXPECT_EQ(Dpctl("revoke worker/node7").out, "access of worker node7 is revoked\n");
  EXPECT_EQ(access().revocations.at(0).name(), "ann");
  EXPECT_FALSE(access().revocations.at(0).worker());
  EXPECT_EQ(access().revocations.at(1).name(), "node7");
  EXPECT_TRUE(access().revocations.at(1).worker());
  out_.str("");
  EXPECT_EQ(Dpctl("revoke worker/node7 -o json").out,
            "{\n  \"name\": \"node7\",\n  \"kind\": \"worker\"\n}\n");
}

TEST_F(AccessVerbsTest, RevokeSaysThatNobodyHasTheName) {
  Dpctl("revoke ann");
  EXPECT_EQ(err_.str(), "");
  access().unknown = true;
  EXPECT_EQ(Dpctl("revoke anm").code, 0);
  EXPECT_THAT(out_.str(), HasSubstr("access of person anm is revoked\n"));
  EXPECT_EQ(
      err_.str(),
      "dpctl: no person named 'anm' was on record; check the name ('dpctl access'; a worker is "
      "worker/NAME)\n");
  err_.str("");
  Dpctl("revoke worker/nod7");
  EXPECT_EQ(err_.str(),
            "dpctl: no worker named 'nod7' was on record; check the name ('dpctl workers')\n");
}

TEST_F(AccessVerbsTest, AccessListsRolesAndRevocations) {
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(holders { name: "ann" role: "admin" }
         holders { name: "node7" worker: true revoked_at { seconds: 1767323004 } }
         holders { name: "node8" worker: true revoked_at { seconds: 1767323004 }
                   joined_at { seconds: 1767323005 } })",
      &access().holders));
  EXPECT_EQ(Dpctl("access").out,
            "NAME   KIND    ROLE   REVOKED                    JOINED\n"
            "ann    person  admin  -                          -\n"
            "node7  worker  -      2026-01-02T03:03:24+00:00  -\n"
            "node8  worker  -      2026-01-02T03:03:24+00:00  2026-01-02T03:03:25+00:00\n");
  out_.str("");
  EXPECT_EQ(Dpctl("access -o name").out, "ann\nworker/node7\nworker/node8\n");
  out_.str("");
  const std::string json = Dpctl("access -o json").out;
  EXPECT_THAT(json, HasSubstr("\"kind\": \"person\",\n      \"role\": \"admin\",\n"
                              "      \"revokedAt\": null,\n      \"joinedAt\": null\n"));
  EXPECT_THAT(json, HasSubstr("\"role\": null,\n      \"revokedAt\": \"2026-01-02T03:03:24"));
  EXPECT_THAT(json, HasSubstr("\"joinedAt\": \"2026-01-02T03:03:25"));
}

TEST_F(AccessVerbsTest, ACallerWhoMayNotIsTold) {
  access().denied = absl::PermissionDeniedError("user ann may not call it");
  for (const std::string words : {"token", "grant user bob", "revoke bob", "access"}) {
    err_.str("");
    EXPECT_EQ(Dpctl(words).code, 1) << words;
    EXPECT_EQ(err_.str(), "dpctl: user ann may not call it\n") << words;
  }
  EXPECT_EQ(out_.str(), "");
}

TEST_F(AccessVerbsTest, ANameMovesNoCursor) {
  access().who_am_i.set_name("a\x1b[2J");
  EXPECT_THAT(Dpctl("whoami").out, HasSubstr("user a\\x1b[2J"));
}

}  // namespace
}  // namespace dp::ctl
