#include "base/security/certificate_authority.h"

#include <openssl/pem.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/security/openssl.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::security {
namespace {

using testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
constexpr absl::Duration kDay = absl::Hours(24);

// The judgement of OpenSSL, as the TLS of every peer makes it, on a certificate.
std::string Verdict(const Certificate& certificate, const CertificateAuthority& authority,
                    int purpose, absl::Time at, const char* host = nullptr) {
  X509_STORE* const store = X509_STORE_new();
  X509_STORE_add_cert(store, authority.certificate().get());
  X509_STORE_CTX* const check = X509_STORE_CTX_new();
  X509_STORE_CTX_init(check, store, certificate.get(), nullptr);
  X509_STORE_CTX_set_purpose(check, purpose);
  X509_VERIFY_PARAM* const rules = X509_STORE_CTX_get0_param(check);
  X509_VERIFY_PARAM_set_time(rules, absl::ToTimeT(at));
  X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_X509_STRICT);
  if (host != nullptr && X509_VERIFY_PARAM_set1_ip_asc(rules, host) != 1) {
    X509_VERIFY_PARAM_set1_host(rules, host, 0);
  }
  X509_verify_cert(check);
  const std::string verdict = X509_verify_cert_error_string(X509_STORE_CTX_get_error(check));
  X509_STORE_CTX_free(check);
  X509_STORE_free(store);
  ERR_clear_error();
  return verdict;
}

class CertificateAuthorityTest : public testing::Test {
 protected:
  Certificate Issued(const Grant& grant) {
    auto issued = authority_.Issue(key_.SigningRequest(), grant, kNow);
    EXPECT_TRUE(issued.ok()) << issued.status();
    return *issued;
  }

  const CertificateAuthority authority_ = CertificateAuthority::Make(kNow);
  const KeyPair key_ = KeyPair::Make();
  const Grant user_{.identity = {Role::kUser, "ann, CA:TRUE"}, .lifetime = kDay};
  const Grant server_{.identity = {Role::kCoordinator, "c"},
                      .hosts = {"dp.example.org", "10.0.0.1", "fd00::1"},
                      .lifetime = kDay};
};

TEST_F(CertificateAuthorityTest, WhomItHasSignedIsTrustedForHisPurposeAndTime) {
  const Certificate user = Issued(user_);
  EXPECT_EQ(Verdict(user, authority_, X509_PURPOSE_SSL_CLIENT, kNow), "ok");
  EXPECT_EQ(Verdict(user, authority_, X509_PURPOSE_SSL_CLIENT, kNow - absl::Minutes(4)), "ok");
  EXPECT_EQ(Verdict(user, authority_, X509_PURPOSE_SSL_CLIENT, kNow + kDay + absl::Seconds(1)),
            "certificate has expired");
  EXPECT_EQ(Verdict(user, authority_, X509_PURPOSE_SSL_SERVER, kNow),
            "unsuitable certificate purpose");
  EXPECT_EQ(*user.identity(), user_.identity);
  EXPECT_EQ(user.not_after(), kNow + kDay);
  EXPECT_TRUE(user.Fits(key_));
  EXPECT_FALSE(user.Fits(KeyPair::Make()));
}

TEST_F(CertificateAuthorityTest, AServerIsTrustedUnderItsNamesAndAddressesOnly) {
  const Certificate server = Issued(server_);
  for (const char* host : {"dp.example.org", "10.0.0.1", "fd00::1"}) {
    EXPECT_EQ(Verdict(server, authority_, X509_PURPOSE_SSL_SERVER, kNow, host), "ok") << host;
  }
  EXPECT_EQ(Verdict(server, authority_, X509_PURPOSE_SSL_SERVER, kNow, "10.0.0.2"),
            "IP address mismatch");
  EXPECT_EQ(Verdict(server, authority_, X509_PURPOSE_SSL_SERVER, kNow, "other.example.org"),
            "hostname mismatch");
}

TEST_F(CertificateAuthorityTest, NeitherAnotherAuthorityNorOneItHasSignedIsTrusted) {
  const CertificateAuthority other = CertificateAuthority::Make(kNow);
  EXPECT_EQ(Verdict(Issued(user_), other, X509_PURPOSE_SSL_CLIENT, kNow),
            "unable to get local issuer certificate");
  const auto self_made = CertificateAuthority::FromPem(Issued(user_).ToPem(), key_.ToPem());
  EXPECT_THAT(self_made.status().message(), HasSubstr("not that of an authority"));
}

TEST_F(CertificateAuthorityTest, NothingOutlivesIt) {
  Grant grant = user_;
  grant.lifetime = 2 * CertificateAuthority::kLifetime;
  EXPECT_EQ(Issued(grant).not_after(), authority_.certificate().not_after());
}

TEST_F(CertificateAuthorityTest, ItSurvivesItsFiles) {
  const auto again =
      CertificateAuthority::FromPem(authority_.certificate().ToPem(), authority_.key().ToPem());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->certificate().Fingerprint(), authority_.certificate().Fingerprint());
  EXPECT_EQ(again->certificate().Fingerprint().size(), 64u);
  const auto issued = again->Issue(key_.SigningRequest(), user_, kNow);
  EXPECT_EQ(Verdict(*issued, authority_, X509_PURPOSE_SSL_CLIENT, kNow), "ok");
  EXPECT_FALSE(CertificateAuthority::FromPem(authority_.certificate().ToPem(), key_.ToPem()).ok());
}

TEST_F(CertificateAuthorityTest, ARequestMustBeSignedByItsOwnKey) {
  std::string request = key_.SigningRequest();
  EXPECT_EQ(authority_.Issue("no request", user_, kNow).status().code(),
            absl::StatusCode::kInvalidArgument);
  const KeyPair other = KeyPair::Make();
  const RequestPtr forged(X509_REQ_new());
  X509_REQ_set_pubkey(forged.get(), key_.get());
  X509_REQ_sign(forged.get(), other.get(), EVP_sha256());
  const BioPtr bio = Writing();
  PEM_write_bio_X509_REQ(bio.get(), forged.get());
  EXPECT_THAT(authority_.Issue(Written(bio), user_, kNow).status().message(),
              HasSubstr("not signed by its own key"));
}

// OpenSSL would read the password from the terminal, or else from standard input.
TEST_F(CertificateAuthorityTest, NobodyIsAskedForThePasswordOfAnEncryptedText) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const FileDescriptor input(ends[0]), typed(ends[1]);
  const FileDescriptor own(dup(STDIN_FILENO));
  ASSERT_EQ(dup2(input.get(), STDIN_FILENO), STDIN_FILENO);
  ASSERT_EQ(write(typed.get(), "secret\n", 7), 7);
  for (const char* kind : {"CERTIFICATE REQUEST", "CERTIFICATE", "PRIVATE KEY"}) {
    const std::string text =
        absl::StrCat("-----BEGIN ", kind, "-----\nProc-Type: 4,ENCRYPTED\n",
                     "DEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF\n\n",
                     std::string(64, 'A'), "\n-----END ", kind, "-----\n");
    EXPECT_FALSE(authority_.Issue(text, user_, kNow).ok()) << kind;
    EXPECT_FALSE(Certificate::FromPem(text).ok()) << kind;
    EXPECT_FALSE(KeyPair::FromPem(text).ok()) << kind;
  }
  int unread = 0;
  EXPECT_EQ(ioctl(input.get(), FIONREAD, &unread), 0);
  EXPECT_EQ(unread, 7);
  dup2(own.get(), STDIN_FILENO);
}

TEST_F(CertificateAuthorityTest, ARequestLongerThanThatOfAnyKeyIsNotRead) {
  const auto issued =
      authority_.Issue(key_.SigningRequest() + std::string(16 << 10, '\n'), user_, kNow);
  EXPECT_THAT(issued.status().message(), HasSubstr("the limit is 16384"));
}

TEST_F(CertificateAuthorityTest, WhatIsNoPemIsAnError) {
  for (const char* text : {"", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}) {
    EXPECT_FALSE(Certificate::FromPem(text).ok());
    EXPECT_FALSE(KeyPair::FromPem(text).ok());
  }
  EXPECT_EQ(authority_.certificate().identity().status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace dp::security
