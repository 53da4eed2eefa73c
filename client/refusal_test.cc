#include "client/refusal.h"

#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/security/credential.h"
#include "base/testing/scratch_dir.h"
#include "client/testing/fake_access.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::client {
namespace {

using security::Credential;
using security::Role;
using ::testing::HasSubstr;

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
                absl::StatusCode::kFailedPrecondition, "call it with --insecure");
  EXPECT_EQ(WhyRefused(address, {.insecure = true}, kRefusalPatience), absl::OkStatus());
  server->Shutdown();
}

}  // namespace
}  // namespace dp::client
