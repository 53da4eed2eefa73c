// Certificates that the coordinator's own authority has not signed: its own, and those of callers.

#include <memory>
#include <string>

#include "base/security/testing/foreign_certificate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/testing/access_fixture.h"

namespace dp::server {
namespace {

using grpc::StatusCode;
using security::Identity;
using ::testing::HasSubstr;

const Identity kForeignAnn{security::Role::kUser, "ann"};

// The coordinator shows a certificate that its authority has not signed.
class ElsewhereCertificateTest : public AccessFixture {
 protected:
  ElsewhereCertificateTest() { own_certificate_ = false; }
};

TEST_F(ElsewhereCertificateTest, NobodyGetsATokenOrCertificateThatLeadsNowhere) {
  const std::string why =
      "this coordinator has a certificate from elsewhere (--tls-cert), to which no";
  for (const auto& status :
       {CreateToken("worker", "", 1).status, CreateToken("user", "ann", 1).status,
        Enroll(*admin_, "", "w").status}) {
    EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
    EXPECT_THAT(status.error_message(), HasSubstr(why));
  }
}

TEST_F(ElsewhereCertificateTest, AGrantGivesTheRoleAndNoToken) {
  v1::GrantRequest grant;
  grant.set_role("viewer");
  grant.set_name("ann");
  const auto granted = admin_->Call(admin_->access(), &v1::Access::Stub::Grant, grant);
  ASSERT_TRUE(granted.ok()) << granted.status.error_message();
  EXPECT_EQ(granted->token(), "");
  const auto ann = As(kForeignAnn);
  EXPECT_EQ(ann->Call(ann->access(), &v1::Access::Stub::WhoAmI, {})->role(), "viewer");
}

// The coordinator does not know who has signed its own.
TEST_F(ElsewhereCertificateTest, ARenewedCertificateComesWithoutAuthorities) {
  const auto ann = As(kForeignAnn);
  const auto renewed = Renew(*ann);
  ASSERT_TRUE(renewed.ok()) << renewed.status.error_message();
  EXPECT_NE(renewed->certificate().chain(), "");
  EXPECT_EQ(renewed->certificate().authorities(), "");
}

class ForeignCertificateTest : public AccessFixture {
 protected:
  ForeignCertificateTest() { other_authorities_ = foreign_.certificate().ToPem(); }
  std::unique_ptr<ClusterClient> Foreigner(const security::ForeignNames& names) {
    return As(Showing({key_.ToPem(), ForeignCertificate(foreign_, key_, names).ToPem()}));
  }

  const security::CertificateAuthority foreign_ = security::CertificateAuthority::Make(absl::Now());
};

TEST_F(ForeignCertificateTest, WithoutARoleARefusalNamesTheGrant) {
  const auto ann = Foreigner({"", "email:ann@example.org"});
  EXPECT_THAT(WhoIs(*ann),
              AllOf(HasSubstr("person ann@example.org may not call Access.WhoAmI: "),
                    HasSubstr("an administrator can: dpctl grant user ann@example.org"),
                    Not(HasSubstr("viewer"))));
  const auto listed = admin_->Call(admin_->access(), &v1::Access::Stub::ListRefusals, {});
  EXPECT_EQ(listed->refusals(0).caller(), "person ann@example.org");
  EXPECT_THAT(WhoIs(*Foreigner({"Ann's $(reboot)"})), HasSubstr("user 'Ann'\\''s $(reboot)'"));
}

TEST_F(ForeignCertificateTest, OnlyItsMakerReplacesIt) {
  const auto ann = Foreigner({"ann"});
  Revoke(kForeignAnn);
  Grant("ann", Role::kUser);
  EXPECT_THAT(WhoIs(*ann),
              HasSubstr("the certificate of person ann was revoked; get a new one where it was"));
}

TEST_F(ForeignCertificateTest, ItHasOnlyTheRoleThatWasGranted) {
  const auto ann = Foreigner({"admin", "email:ann@example.org"});
  EXPECT_THAT(WhoIs(*ann), HasSubstr("no role has been granted"));
  Grant("admin", Role::kAdmin);  // not her name
  EXPECT_THAT(WhoIs(*ann), HasSubstr("no role has been granted"));
  Grant("ann@example.org", Role::kUser);
  EXPECT_EQ(WhoIs(*ann), "user ann@example.org");
  EXPECT_EQ(Renew(*ann).status.error_code(), StatusCode::FAILED_PRECONDITION);
  Revoke({Role::kUser, "ann@example.org"});
  EXPECT_THAT(WhoIs(*ann), HasSubstr("no role has been granted"));
}

// All authorities of dp have the same name.
TEST_F(ForeignCertificateTest, TheAuthorityMayBeThatOfAnotherCluster) {
  const auto issued = foreign_.Issue(
      key_.SigningRequest(), {.identity = kForeignAnn, .lifetime = absl::Hours(1)}, absl::Now());
  const auto ann = As(Showing({key_.ToPem(), issued->ToPem()}));
  EXPECT_EQ(WhoIs(*ann), "user ann");
  EXPECT_EQ(WhoIs(*As(kForeignAnn)), "user ann");
  // The other cluster decides how long her certificate counts.
  EXPECT_EQ(Renew(*ann).status.error_code(), StatusCode::FAILED_PRECONDITION);
}

TEST_F(ForeignCertificateTest, ANameLikeThatOfAWorkerDoesNotCount) {
  for (const security::ForeignNames& names :
       {security::ForeignNames{"worker/w1"}, {"w1", "URI:spiffe://dp/user/worker%2Fw1"}}) {
    EXPECT_THAT(WhoIs(*Foreigner(names)),
                HasSubstr("the name in it, 'worker/w1', begins with worker/"));
  }
}

TEST_F(ForeignCertificateTest, AnIdentityOfDpInItCounts) {
  const auto worker = Foreigner({"node7", "URI:spiffe://dp/worker/node7"});
  EXPECT_EQ(WhoIs(*worker), "worker node7");
}

// A coordinator in plain text.

}  // namespace
}  // namespace dp::server
