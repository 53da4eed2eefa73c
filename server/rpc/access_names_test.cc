// Whom tokens, grants and certificates may name.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/testing/access_fixture.h"

namespace dp::server {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;

class AccessNamesTest : public AccessFixture {};

TEST_F(AccessNamesTest, ATokenIsMadeForAHolderWhoCanExist) {
  const auto code = [this](const char* role, const std::string& name, int uses, int hours) {
    return CreateToken(role, name, uses, hours).status.error_code();
  };
  EXPECT_EQ(code("user", "ann", 1, 24 * 7), StatusCode::OK);
  EXPECT_EQ(code("user", "ann", 1, 24 * 7 + 1), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code("user", "ann", 1, 0), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code("user", "ann", -1, 1), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code("user", "", 1, 1), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code("user", "a\nb", 1, 1), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code("worker", "a/b", 1, 1), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code("coordinator", "c", 1, 1), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code("root", "ann", 1, 1), StatusCode::INVALID_ARGUMENT);
}

TEST_F(AccessNamesTest, AWrongNameIsShownOnOneLine) {
  for (const auto& [role, name] : {std::pair{"user", "a\nb"}, {"worker", "a\nb"}}) {
    EXPECT_THAT(CreateToken(role, name, 1).status.error_message(), HasSubstr("'a\\nb' is no"));
  }
  v1::GrantRequest grant;
  grant.set_role("user");
  grant.set_name("\x1b[31m");
  EXPECT_THAT(
      admin_->Call(admin_->access(), &v1::Access::Stub::Grant, grant).status.error_message(),
      HasSubstr("'\\033[31m' is no name of a person"));
  EXPECT_THAT(Enroll(*nobody_, Token("worker", "w"), "a\nb").status.error_message(),
              HasSubstr("and not for a\\nb; start"));
}

// `dpctl revoke worker/w1` ends the access of the worker.
TEST_F(AccessNamesTest, APersonsNameBeginsWithNoKindOfHolder) {
  const std::string why = "'worker/w1' is no name of a person: it begins with worker/; use 'w1'";
  EXPECT_EQ(CreateToken("user", "worker/w1", 1).status.error_message(), why);
  v1::GrantRequest grant;
  grant.set_role("user");
  grant.set_name("worker/w1");
  EXPECT_EQ(admin_->Call(admin_->access(), &v1::Access::Stub::Grant, grant).status.error_message(),
            why);
  EXPECT_TRUE(CreateToken("user", "spiffe://example.org/worker/w1", 1).ok());
  EXPECT_THAT(CreateToken("user", "admin", 1).status.error_message(),
              HasSubstr("admin is the administrator whose credential the coordinator makes"));
  EXPECT_TRUE(CreateToken("admin", "admin", 1).ok());
  EXPECT_THAT(WhoIs(*As({Role::kUser, "worker/w1"})),
              HasSubstr("the name in it, 'worker/w1', begins with worker/"));
}

TEST_F(AccessNamesTest, NoPersonIsCalledAsTheOwnerOfJobsThatHaveNone) {
  EXPECT_EQ(CreateToken("user", "legacy", 1).status.error_message(),
            "'legacy' stands for jobs without an owner; give the person another name");
  EXPECT_THAT(WhoIs(*As({Role::kUser, "legacy"})),
              HasSubstr("the name in it, 'legacy', stands for jobs without an owner"));
  EXPECT_EQ(WhoIs(*As({Role::kWorker, "legacy"})), "worker legacy");
}

TEST_F(AccessNamesTest, ARevocationOfANameWithARoleIsRejected) {
  v1::RevokeRequest request;
  request.set_name("user/bob");
  const auto revoked = admin_->Call(admin_->access(), &v1::Access::Stub::Revoke, request);
  EXPECT_EQ(revoked.status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(revoked.status.error_message(),
            "'user/bob' is no name of a person: it begins with user/; use 'bob'");
}

TEST_F(AccessNamesTest, NamesThatPeopleCannotTellFromOthersAreRejected) {
  const std::string rule =
      " is no name of a person; use 1 to 256 bytes of UTF-8 without characters that cannot be "
      "seen, "
      "and without a space at either end";
  for (const auto& [name, shown] : {std::pair<std::string, std::string>(" ann", "' ann'"),
                                    {"ann ", "'ann '"},
                                    {"an\u200bn", "'an\\342\\200\\213n'"},
                                    {"\ufeffann", "'\\357\\273\\277ann'"},
                                    {"nna\u202e", "'nna\\342\\200\\256'"},
                                    {"a\nb", "'a\\nb'"}}) {
    const auto made = CreateToken("user", name, 1);
    EXPECT_EQ(made.status.error_code(), StatusCode::INVALID_ARGUMENT) << shown;
    EXPECT_EQ(made.status.error_message(), shown + rule);
    v1::GrantRequest grant;
    grant.set_role("user");
    grant.set_name(name);
    EXPECT_EQ(
        admin_->Call(admin_->access(), &v1::Access::Stub::Grant, grant).status.error_message(),
        shown + rule);
    v1::RevokeRequest revoke;
    revoke.set_name(name);
    EXPECT_EQ(
        admin_->Call(admin_->access(), &v1::Access::Stub::Revoke, revoke).status.error_message(),
        shown + rule);
    const auto holder = As({Role::kUser, name});
    EXPECT_THAT(holder->Call(holder->jobs(), &v1::Jobs::Stub::List, {}).status.error_message(),
                HasSubstr("the name in it is not UTF-8"))
        << shown;
  }
}

TEST_F(AccessNamesTest, NoWorkerIsNamedLikeAFlagOrADirectory) {
  for (const std::string name : {".", "..", "-x", "--name"}) {
    EXPECT_THAT(CreateToken("worker", name, 1).status.error_message(),
                HasSubstr("'" + name + "' is no worker name; use "))
        << name;
    EXPECT_THAT(Enroll(*admin_, "", "", name).status.error_message(),
                HasSubstr("'" + name + "' is no worker name; use "))
        << name;
    const auto worker = As({Role::kWorker, name});
    EXPECT_THAT(worker->Call(worker->jobs(), &v1::Jobs::Stub::List, {}).status.error_message(),
                HasSubstr("'" + name + "', is no worker name; use "))
        << name;
  }
}

}  // namespace
}  // namespace dp::server
