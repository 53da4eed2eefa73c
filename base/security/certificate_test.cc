#include "base/security/certificate.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
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

// Names that end at a zero byte, or are cut, would make somebody else of the holder.
TEST_F(CertificateTest, ACommonNameCountsAsAWhole) {
  for (const std::string& name : {std::string("ann\0.example.org", 16), std::string(64, 'a')}) {
    EXPECT_EQ(ForeignCertificate(authority_, key_, {.common_name = name}).subject(), name);
  }
  const Certificate wide = With("");
  X509_NAME* const names = X509_get_subject_name(wide.get());
  X509_NAME_ENTRY_free(X509_NAME_delete_entry(names, 0));
  const unsigned char bmp[] = {0, 'b', 0, 'o', 0, 'b'};
  X509_NAME_add_entry_by_txt(names, "CN", V_ASN1_BMPSTRING, bmp, sizeof(bmp), -1, 0);
  EXPECT_EQ(wide.subject(), "bob");
}

TEST_F(CertificateTest, ATimeThatIsNoneNeverHolds) {
  const Certificate certificate = With("");
  ASSERT_EQ(ASN1_STRING_set(X509_getm_notBefore(certificate.get()), "soon", 4), 1);
  ASSERT_EQ(ASN1_STRING_set(X509_getm_notAfter(certificate.get()), "late", 4), 1);
  EXPECT_EQ(certificate.not_before(), absl::InfiniteFuture());
  EXPECT_EQ(certificate.not_after(), absl::InfinitePast());
  EXPECT_EQ(ERR_peek_error(), 0u);
}

// TLS connections of the same thread take what is in OpenSSL's list for errors of theirs.
TEST_F(CertificateTest, AlternativeNamesThatCannotBeReadLeaveNoErrorBehind) {
  const Certificate certificate = With("");
  const unsigned char wrong[] = {0x30, 0x05, 0x86, 0x09, 'x'};
  ASN1_OCTET_STRING* const value = ASN1_OCTET_STRING_new();
  ASN1_OCTET_STRING_set(value, wrong, sizeof(wrong));
  const ExtensionPtr extension(
      X509_EXTENSION_create_by_NID(nullptr, NID_subject_alt_name, 0, value));
  ASN1_OCTET_STRING_free(value);
  ASSERT_EQ(X509_add_ext(certificate.get(), extension.get(), -1), 1);
  EXPECT_EQ(certificate.identity().status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ERR_peek_error(), 0u);
}

TEST_F(CertificateTest, AllCertificatesOfATextAreRead) {
  const std::string one = With("").ToPem(), two = authority_.certificate().ToPem();
  const auto all = Certificate::AllFromPem("# one\n" + one + key_.ToPem() + "two" + "\n" + two);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[0].ToPem() + (*all)[1].ToPem(), one + two);
  EXPECT_EQ(ERR_peek_error(), 0u);
}

TEST_F(CertificateTest, ADamagedPartOfATextIsNoEndOfIt) {
  const std::string one = With("").ToPem();
  const std::string damaged = "-----BEGIN KEY-----\n!\n-----END KEY-----\n";
  const absl::Status wrong = Certificate::AllFromPem(one + one + damaged + one).status();
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(wrong.message(), HasSubstr("damaged behind 2 certificates"));
  for (const std::string& none : {std::string(), std::string("text"), key_.ToPem(), damaged}) {
    EXPECT_THAT(Certificate::AllFromPem(none).status().message(), HasSubstr("no certificate"));
  }
  EXPECT_EQ(ERR_peek_error(), 0u);
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

// OpenSSL reads such a key, and cannot write it.
TEST_F(CertificateTest, AKeyWhoseNumberIsTooLongForItsCurveIsDamaged) {
  const std::string pem = key_.ToPem();
  const size_t begin = pem.find('\n') + 1;
  std::string der;
  ASSERT_TRUE(absl::Base64Unescape(pem.substr(begin, pem.find("-----END") - begin), &der));
  const size_t number = der.find(std::string("\x02\x01\x01\x04\x20", 5));
  ASSERT_NE(number, std::string::npos);
  der[number + 4] = '\x66';
  const auto read = KeyPair::FromPem(absl::StrCat(
      "-----BEGIN PRIVATE KEY-----\n", absl::Base64Escape(der), "\n-----END PRIVATE KEY-----\n"));
  EXPECT_THAT(read.status().message(), HasSubstr("a damaged private key"));
  EXPECT_EQ(ERR_peek_error(), 0u);
}

}  // namespace
}  // namespace dp::security
