#include "base/security/certificate.h"

#include <string>

#include "base/security/testing/foreign_certificate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::security {
namespace {

using testing::HasSubstr;

class CertificateTest : public testing::Test {
 protected:
  Certificate With(const std::string& alternative) const {
    return ForeignCertificate(authority_, key_, {.common_name = "Ann", .alternative = alternative});
  }

  const CertificateAuthority authority_ = CertificateAuthority::Make(absl::Now());
  const KeyPair key_ = KeyPair::Make();
};

TEST_F(CertificateTest, TheIdentityStandsBesideOtherNames) {
  const Certificate certificate =
      With("URI:spiffe://example.org/ann,URI:spiffe://dp/user/ann,email:ann@example.org");
  ASSERT_TRUE(certificate.identity().ok()) << certificate.identity().status();
  EXPECT_EQ(*certificate.identity(), (Identity{Role::kUser, "ann"}));
}

TEST_F(CertificateTest, OtherNamesAreNoIdentity) {
  for (const char* names : {"", "URI:spiffe://example.org/user/ann", "URI:spiffe://dp2/user/ann",
                            "email:spiffe://dp/user/ann", "DNS:spiffe://dp/user/ann"}) {
    EXPECT_EQ(With(names).identity().status().code(), absl::StatusCode::kNotFound) << names;
  }
}

TEST_F(CertificateTest, TwoIdentitiesOrAWrongOneAreAnError) {
  const auto two = With("URI:spiffe://dp/user/ann,URI:spiffe://dp/admin/ann").identity();
  EXPECT_EQ(two.status().code(), absl::StatusCode::kInvalidArgument);
  const auto wrong = With("URI:spiffe://dp/root/ann").identity();
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(wrong.status().message(), HasSubstr("spiffe://dp/root/ann"));
}

TEST_F(CertificateTest, WithoutAnIdentityItsMostPreciseNameSaysWhomItIsFor) {
  EXPECT_EQ(With("DNS:example.org,email:ann@example.org,URI:spiffe://example.org/ann").subject(),
            "spiffe://example.org/ann");
  EXPECT_EQ(With("DNS:example.org,email:ann@example.org").subject(), "ann@example.org");
  EXPECT_EQ(With("DNS:example.org,IP:10.0.0.1").subject(), "example.org");
  EXPECT_EQ(With("IP:10.0.0.1").subject(), "Ann");
  EXPECT_EQ(With("").subject(), "Ann");
}

TEST_F(CertificateTest, TheKeyOfItsAuthorityHasSignedItAndNoOther) {
  const Certificate certificate = With("");
  EXPECT_TRUE(certificate.IsSignedBy(authority_.certificate()));
  EXPECT_TRUE(authority_.certificate().IsSignedBy(authority_.certificate()));
  // The same name, and another key.
  EXPECT_FALSE(certificate.IsSignedBy(CertificateAuthority::Make(absl::Now()).certificate()));
  EXPECT_FALSE(authority_.certificate().IsSignedBy(certificate));
}

TEST_F(CertificateTest, ACertificateThatOnlyNamesTheAuthorityIsNotSignedByIt) {
  const Certificate forged = With("");
  ASSERT_GT(X509_sign(forged.get(), KeyPair::Make().get(), EVP_sha256()), 0);
  EXPECT_FALSE(forged.IsSignedBy(authority_.certificate()));
}

}  // namespace
}  // namespace dp::security
