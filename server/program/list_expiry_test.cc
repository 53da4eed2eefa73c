#include "server/program/list_expiry.h"

#include <openssl/pem.h>
#include <openssl/x509.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "base/security/certificate_authority.h"
#include "base/security/openssl.h"
#include "base/testing/scratch_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/program/identity_dir.h"

namespace dp::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Warning = RevocationListWatch::Warning;

const absl::Time kListsNow = absl::FromUnixSeconds(1'800'000'000);

// A list of the authority, in PEM.
std::string ListEndingAt(absl::Time ends, const security::CertificateAuthority& authority) {
  using security::Free;
  const std::unique_ptr<X509_CRL, Free<X509_CRL_free>> list(X509_CRL_new());
  const auto time_of = [](absl::Time time) {
    return std::unique_ptr<ASN1_TIME, Free<ASN1_TIME_free>>(
        ASN1_TIME_set(nullptr, absl::ToTimeT(time)));
  };
  X509_CRL_set_version(list.get(), 1);
  X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(authority.certificate().get()));
  X509_CRL_set1_lastUpdate(list.get(), time_of(kListsNow - absl::Hours(100)).get());
  if (ends < absl::InfiniteFuture()) X509_CRL_set1_nextUpdate(list.get(), time_of(ends).get());
  X509_CRL_sign(list.get(), authority.key().get(), EVP_sha256());
  const security::BioPtr out = security::Writing();
  PEM_write_bio_X509_CRL(out.get(), list.get());
  return security::Written(out);
}

class ListExpiryTest : public testing::Test {
 protected:
  // The warnings at this moment.
  std::vector<Warning> At(absl::Duration later) { return watch_.Due(lists_, kListsNow + later); }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_.path() / name) << text;
  }

  const ScratchDir dir_;
  const security::CertificateAuthority authority_ =
      security::CertificateAuthority::Make(kListsNow - absl::Hours(1000));
  RevocationListWatch watch_;
  std::vector<RevocationList> lists_ = {{"a.r0", "A", kListsNow + absl::Hours(30)}};
};

TEST_F(ListExpiryTest, AListIsNamedOnceInItsLastDayAndEachHourAfterItsEnd) {
  const Warning soon{lists_[0], false}, expired{lists_[0], true};
  EXPECT_THAT(At(absl::Hours(5)), IsEmpty());
  EXPECT_THAT(At(absl::Hours(6)), ElementsAre(soon));
  EXPECT_THAT(At(absl::Hours(20)), IsEmpty());
  EXPECT_THAT(At(absl::Hours(30)), ElementsAre(expired));
  EXPECT_THAT(At(absl::Hours(30) + absl::Minutes(59)), IsEmpty());
  EXPECT_THAT(At(absl::Hours(31)), ElementsAre(expired));
}

TEST_F(ListExpiryTest, ANewListEndsTheWarnings) {
  At(absl::Hours(30));
  lists_[0].ends += absl::Hours(100);
  EXPECT_THAT(At(absl::Hours(31)), IsEmpty());
  EXPECT_THAT(At(absl::Hours(110)), ElementsAre(Warning{lists_[0], false}));
}

TEST_F(ListExpiryTest, OnlyTheLatestListOfAnAuthorityCounts) {
  lists_.push_back({"a.r1", "A", kListsNow + absl::Hours(500)});
  lists_.push_back({"b.r0", "B", kListsNow - absl::Hours(1)});
  EXPECT_THAT(At(absl::Hours(40)), ElementsAre(Warning{lists_[2], true}));
}

TEST_F(ListExpiryTest, AuthoritiesThatCannotBeReadHoldNoListBack) {
  const std::string lists = (dir_.path() / "lists").string();
  std::filesystem::create_directory(lists);
  Write("clients.crt", authority_.certificate().ToPem());
  auto identity = IdentityDir::Open(
      dir_.path() / "identity",
      {.clients_file = (dir_.path() / "clients.crt").string(), .crl_dir = lists}, kListsNow);
  ASSERT_TRUE(identity.ok()) << identity.status();
  const auto shown = [&] {
    std::ifstream file(identity->tls().clients_file);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string before = shown();
  Write("clients.crt", "damaged");
  Write("lists/0123abcd.r0", ListEndingAt(kListsNow + absl::Hours(200), authority_));
  EXPECT_EQ(identity->Refresh(kListsNow).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(std::filesystem::is_empty(identity->tls().crl_dir));
  EXPECT_TRUE(shown().starts_with(before)) << shown();
}

TEST_F(ListExpiryTest, TheLogNamesTheFileAndTheDate) {
  const std::string lists = (dir_.path() / "lists").string();
  std::filesystem::create_directory(lists);
  Write("lists/0123abcd.r0", ListEndingAt(kListsNow + absl::Hours(2), authority_));
  Write("clients.crt", authority_.certificate().ToPem());
  auto identity =
      IdentityDir::Open(dir_.path() / "identity",
                        {.clients_file = (dir_.path() / "clients.crt").string(), .crl_dir = lists},
                        kListsNow - absl::Hours(30));
  ASSERT_TRUE(identity.ok()) << identity.status();
  testing::internal::CaptureStderr();
  for (const int hour : {-30, 0, 1, 2, 2}) {
    EXPECT_EQ(identity->Refresh(kListsNow + absl::Hours(hour)), absl::OkStatus());
  }
  const std::string log = testing::internal::GetCapturedStderr();
  const std::string at = "2027-01-15T10:00:00+00:00";
  const auto lines_with = [&log](const std::string& words) {
    size_t count = 0;
    for (size_t i = log.find(words); i != log.npos; i = log.find(words, i + 1)) ++count;
    return count;
  };
  const std::string file = " file=" + lists + "/0123abcd.r0 ";
  EXPECT_EQ(lines_with("event=revocation_list_expires" + file + "expires_at=" + at), 1u) << log;
  EXPECT_EQ(lines_with("event=revocation_list_expired" + file + "expired_at=" + at), 1u) << log;
}

}  // namespace
}  // namespace dp::server
