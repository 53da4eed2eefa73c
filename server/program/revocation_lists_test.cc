#include "server/program/revocation_lists.h"

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/security/certificate_authority.h"
#include "base/security/openssl.h"
#include "base/security/testing/foreign_certificate.h"
#include "base/testing/scratch_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const absl::Time kListTime = absl::FromUnixSeconds(1'800'000'000);

const security::CertificateAuthority& Company() {
  static const auto& made =
      *new security::CertificateAuthority(security::CertificateAuthority::Make(kListTime));
  return made;
}

// A list of the company that names `serials`, signed by the key.
std::string ListOf(const std::vector<int>& serials, EVP_PKEY* key, absl::Time from) {
  const std::unique_ptr<X509_CRL, security::Free<X509_CRL_free>> list(X509_CRL_new());
  DP_CHECK(X509_CRL_set_version(list.get(), X509_CRL_VERSION_2) == 1);
  DP_CHECK(X509_CRL_set_issuer_name(list.get(),
                                    X509_get_subject_name(Company().certificate().get())) == 1);
  const std::unique_ptr<ASN1_TIME, security::Free<ASN1_TIME_free>> now(
      ASN1_TIME_set(nullptr, absl::ToTimeT(from)));
  DP_CHECK(X509_CRL_set1_lastUpdate(list.get(), now.get()) == 1);
  for (const int serial : serials) {
    X509_REVOKED* const revoked = X509_REVOKED_new();
    const std::unique_ptr<ASN1_INTEGER, security::Free<ASN1_INTEGER_free>> number(
        ASN1_INTEGER_new());
    DP_CHECK(ASN1_INTEGER_set(number.get(), serial) == 1);
    DP_CHECK(X509_REVOKED_set_serialNumber(revoked, number.get()) == 1);
    DP_CHECK(X509_REVOKED_set_revocationDate(revoked, now.get()) == 1);
    DP_CHECK(X509_CRL_add0_revoked(list.get(), revoked) == 1);
  }
  DP_CHECK(X509_CRL_sign(list.get(), key, EVP_sha256()) > 0);
  const security::BioPtr bio = security::Writing();
  DP_CHECK(PEM_write_bio_X509_CRL(bio.get(), list.get()) == 1);
  return security::Written(bio);
}

std::string ListOf(const std::vector<int>& serials) {
  return ListOf(serials, Company().key().get(), kListTime);
}

// A list in PEM as the same list in DER.
std::string InDer(const std::string& pem) {
  const std::unique_ptr<X509_CRL, security::Free<X509_CRL_free>> list(
      PEM_read_bio_X509_CRL(security::Reading(pem).get(), nullptr, nullptr, nullptr));
  unsigned char* bytes = nullptr;
  const int size = i2d_X509_CRL(list.get(), &bytes);
  DP_CHECK(size > 0);
  std::string der(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  OPENSSL_free(bytes);
  return der;
}

std::string CompanyCertificate() { return Company().certificate().ToPem(); }

class RevocationListsTest : public testing::Test {
 protected:
  RevocationListsTest() { fs::create_directory(from_); }

  // By another name first, so that the file of the name is always another one.
  void Put(const std::string& name, const std::string& text) const {
    std::ofstream(scratch_.path() / "draft") << text;
    fs::rename(scratch_.path() / "draft", from_ / name);
  }
  absl::Status Refresh() { return lists_.Refresh({Company().certificate()}, kListTime); }
  std::vector<std::string> Copies() const {
    std::vector<std::string> names;
    for (const auto& each : fs::directory_iterator(to_)) names.push_back(each.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  // The copy of so many lists of the company, as OpenSSL looks for it.
  static std::string CopyName(int number) {
    char name[16] = "";
    const auto hash = X509_NAME_hash_ex(X509_get_subject_name(Company().certificate().get()),
                                        nullptr, nullptr, nullptr);
    std::snprintf(name, sizeof(name), "%08lx.r%d", hash, number);
    return name;
  }
  std::string CopyOf(const std::string& name) const {
    std::ifstream file(to_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const ScratchDir scratch_;
  const fs::path from_ = scratch_.path() / "from", to_ = scratch_.path() / "to";
  RevocationLists lists_{from_, to_, /*accept_other_users=*/false};
};

TEST_F(RevocationListsTest, ListsAreCopiedAsTheyComeChangeAndGo) {
  ASSERT_EQ(Refresh(), absl::OkStatus());
  EXPECT_EQ(lists_.text(), "");
  Put("01234abc.r0", ListOf({1}));
  ASSERT_EQ(Refresh(), absl::OkStatus());
  const std::string first = CopyOf(CopyName(0)), before = lists_.text();
  Put("01234abc.r0", ListOf({1, 2}));
  Put("01234abc.r1", ListOf({3}));
  ASSERT_EQ(Refresh(), absl::OkStatus());
  EXPECT_THAT(Copies(), ElementsAre(CopyName(0), CopyName(1)));
  EXPECT_FALSE(CopyOf(CopyName(0)) == first && CopyOf(CopyName(1)) == first);
  EXPECT_NE(lists_.text(), before);
  EXPECT_EQ(lists_.in_force().size(), 2u);
  fs::remove(from_ / "01234abc.r0");
  ASSERT_EQ(Refresh(), absl::OkStatus());
  EXPECT_THAT(Copies(), ElementsAre(CopyName(0)));
}

// OpenSSL would look for HASH.r0 first, and for no more where that is missing.
TEST_F(RevocationListsTest, WhateverTheFilesAreCalledOpenSslFindsTheirLists) {
  const std::string one = ListOf({1}), two = ListOf({2});
  for (const char* name : {"company.crl", "lists.pem", "00000000.r7", "ABCDEF00.r01"}) {
    Put(name, one);
    ASSERT_EQ(Refresh(), absl::OkStatus()) << name;
    EXPECT_THAT(Copies(), ElementsAre(CopyName(0))) << name;
    Put("more", one + two);
    ASSERT_EQ(Refresh(), absl::OkStatus());
    EXPECT_THAT(Copies(), ElementsAre(CopyName(0), CopyName(1))) << name;
    fs::remove(from_ / name);
    fs::remove(from_ / "more");
    ASSERT_EQ(Refresh(), absl::OkStatus());
    EXPECT_THAT(Copies(), IsEmpty());
  }
}

TEST_F(RevocationListsTest, WhomTheListsNameIsKnown) {
  const security::KeyPair key = security::KeyPair::Make();
  const auto certificate = security::ForeignCertificate(Company(), key, {.common_name = "ann"});
  Put("company.crl", ListOf({1, 7}));  // the serial of a foreign certificate is 7
  ASSERT_EQ(Refresh(), absl::OkStatus());
  EXPECT_TRUE(lists_.revocations()->Revoke(certificate));
  EXPECT_FALSE(lists_.revocations()->Revoke(Company().certificate()));
  const std::string chain = CompanyCertificate() + certificate.ToPem();
  EXPECT_TRUE(lists_.revocations()->RevokeAnyOf(chain));
  EXPECT_FALSE(lists_.revocations()->RevokeAnyOf(CompanyCertificate()));
  EXPECT_FALSE(lists_.revocations()->RevokeAnyOf(""));
  Put("company.crl", ListOf({1}));
  ASSERT_EQ(Refresh(), absl::OkStatus());
  EXPECT_FALSE(lists_.revocations()->RevokeAnyOf(chain));
}

// OpenSSL would reject all certificates of the authority, without a word.
TEST_F(RevocationListsTest, AListThatItsAuthorityHasNotSignedOrThatIsOfTheFutureIsRefused) {
  Put("company.crl", ListOf({1}));
  ASSERT_EQ(Refresh(), absl::OkStatus());
  const std::string before = CopyOf(CopyName(0));
  const auto other = security::CertificateAuthority::Make(kListTime);
  const std::string forged = ListOf({2}, other.key().get(), kListTime);
  const std::string early = ListOf({2}, Company().key().get(), kListTime + absl::Hours(1));
  for (const auto& [list, why] :
       {std::pair{forged, "the authority that it names has not signed it"},
        {early, "it is not valid before 2027-01-15T09:00:00+00:00"}}) {
    Put("company.crl", list);
    const absl::Status refused = Refresh();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(refused.message(), "--crl-dir: " + from_.string() + "/company.crl cannot be used: " +
                                     why + "; put a whole list there");
    EXPECT_EQ(CopyOf(CopyName(0)), before);
  }
  EXPECT_EQ(lists_.Refresh({Company().certificate()}, kListTime + absl::Hours(1)),
            absl::OkStatus());
  EXPECT_NE(CopyOf(CopyName(0)), before);
}

// An authority between has its list, too.
TEST_F(RevocationListsTest, AListOfAnAuthorityThatIsNotAmongTheseIsTakenAsItIs) {
  Put("company.crl", ListOf({1}));
  ASSERT_EQ(lists_.Refresh({}, kListTime), absl::OkStatus());
  EXPECT_THAT(Copies(), ElementsAre(CopyName(0)));
}

// OpenSSL would trust such a certificate as an authority.
TEST_F(RevocationListsTest, CertificatesAreNeverCopiedAndAreLoggedOnce) {
  for (const char* name : {"01234abc.0", "01234abc.12", "company.crt"}) {
    Put(name, CompanyCertificate());
  }
  Put("01234abc.r0", CompanyCertificate() + ListOf({1}) + CompanyCertificate());
  testing::internal::CaptureStderr();
  ASSERT_EQ(Refresh(), absl::OkStatus());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(Copies(), ElementsAre(CopyName(0)));
  EXPECT_THAT(CopyOf(CopyName(0)), testing::Not(HasSubstr("CERTIFICATE-----")));
  EXPECT_THAT(CopyOf(CopyName(0)), HasSubstr("-----BEGIN X509 CRL-----"));
  for (const char* name : {"01234abc.0", "01234abc.12", "company.crt", "01234abc.r0"}) {
    EXPECT_THAT(log, HasSubstr("event=crl_dir_certificate_ignored file=" + from_.string() + "/" +
                               name + " "));
  }
  testing::internal::CaptureStderr();
  ASSERT_EQ(Refresh(), absl::OkStatus());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(RevocationListsTest, AListThatCannotBeUsedHoldsNoOtherBack) {
  Put("01234abc.r0", ListOf({1}));
  ASSERT_EQ(Refresh(), absl::OkStatus());
  const std::string before = CopyOf(CopyName(0));
  Put("01234abc.r0", ListOf({1}) + ListOf({2}).substr(0, 100));
  Put("01234abc.r1", ListOf({2}));
  EXPECT_EQ(Refresh().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT((std::vector{CopyOf(CopyName(0)), CopyOf(CopyName(1))}), Contains(before));
  EXPECT_THAT(Copies(), ElementsAre(CopyName(0), CopyName(1)));
}

// A file that has held a list, and what may then become of it.
enum class Form { kFile, kLink };
const std::vector<std::string> kNames = {"company.crl", "x.pem", "plain", "01234abc.r0"};

// `openssl rehash` makes links. A new list may be on its way to where one leads.
TEST_F(RevocationListsTest, WhateverAFileIsCalledAndBecomesItKeepsItsListUntilItIsRemoved) {
  const std::string list = ListOf({1}), later = ListOf({1, 2});
  const std::vector<std::string> unusable = {"",
                                             "no list",
                                             CompanyCertificate(),
                                             list.substr(0, 100),
                                             InDer(list).substr(0, 100),
                                             InDer(list) + "x"};
  for (const std::string& name : kNames)
    for (const Form form : {Form::kFile, Form::kLink})
      for (const std::string& first : {list, InDer(list)}) {
        const fs::path file = form == Form::kLink ? scratch_.path() / "target" : from_ / name;
        const auto becomes = [&](const std::string& text) {
          std::ofstream(scratch_.path() / "draft") << text;
          fs::rename(scratch_.path() / "draft", file);
        };
        const auto expect_kept = [&](const std::string& event) {
          const absl::Status refused = Refresh();
          EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << name << event;
          EXPECT_THAT(std::string(refused.message()),
                      HasSubstr("--crl-dir: " + (from_ / name).string() + " cannot be used: "));
          EXPECT_THAT(Copies(), ElementsAre(CopyName(0))) << name << event;
          EXPECT_EQ(CopyOf(CopyName(0)), list) << name << event;
          EXPECT_EQ(lists_.in_force().size(), 1u) << name << event;
        };
        becomes(first);
        if (form == Form::kLink) fs::create_symlink(file, from_ / name);
        ASSERT_EQ(Refresh(), absl::OkStatus()) << name;
        for (const std::string& text : unusable) {
          becomes(text);
          expect_kept(" becomes " + text);
        }
        fs::remove(file);
        if (form == Form::kLink) expect_kept(" leads nowhere");
        fs::create_directory(file);
        expect_kept(" becomes a directory");
        fs::remove(file);
        becomes(later);
        ASSERT_EQ(Refresh(), absl::OkStatus()) << name;
        EXPECT_EQ(CopyOf(CopyName(0)), later) << name;
        fs::remove(from_ / name);
        ASSERT_EQ(Refresh(), absl::OkStatus()) << name;
        EXPECT_THAT(Copies(), IsEmpty()) << name;
      }
}

TEST_F(RevocationListsTest, AfterARestartAFileThatHasHeldAListMustStillHoldOne) {
  Put("company.der", InDer(ListOf({1})));
  Put("gone.pem", ListOf({2}));
  ASSERT_EQ(Refresh(), absl::OkStatus());
  fs::remove(from_ / "gone.pem");
  ASSERT_EQ(Refresh(), absl::OkStatus());
  for (const std::string& text : {std::string("no list"), CompanyCertificate()}) {
    Put("company.der", text);
    Put("gone.pem", text);
    RevocationLists later{from_, to_, /*accept_other_users=*/false};
    EXPECT_THAT(std::string(later.Refresh({Company().certificate()}, kListTime).message()),
                HasSubstr("/company.der cannot be used: it holds no revocation list"));
    fs::remove(from_ / "company.der");
    EXPECT_EQ(later.Refresh({Company().certificate()}, kListTime), absl::OkStatus());
    Put("company.der", InDer(ListOf({1})));
    ASSERT_EQ(later.Refresh({Company().certificate()}, kListTime), absl::OkStatus());
  }
}

TEST_F(RevocationListsTest, WhatMayBeLeftOfAListIsAnErrorUnderAnyName) {
  const std::string der = InDer(ListOf({1}));
  for (const std::string& text : {std::string(), der.substr(0, 100), der + "x", der + der}) {
    Put("company.der", text);
    EXPECT_THAT(std::string(Refresh().message()),
                HasSubstr("/company.der cannot be used: it holds no revocation list"));
  }
}

TEST_F(RevocationListsTest, AFileWithoutAListIsLoggedOnceAndHasNoPartInTheRest) {
  Put("readme.txt", "lists of the company");
  Put("company.pem", ListOf({1}));
  testing::internal::CaptureStderr();
  ASSERT_EQ(Refresh(), absl::OkStatus());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("event=crl_dir_file_ignored file=" + from_.string() +
                        "/readme.txt reason=\"it holds no revocation list\""));
  testing::internal::CaptureStderr();
  ASSERT_EQ(Refresh(), absl::OkStatus());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(Copies(), ElementsAre(CopyName(0)));
}

TEST_F(RevocationListsTest, TheTextChangesOnlyOnceTheCopiesAreThere) {
  Put("x.pem", ListOf({1}));
  ASSERT_EQ(Refresh(), absl::OkStatus());
  const std::string before = lists_.text();
  fs::rename(to_, scratch_.path() / "kept");
  std::ofstream(to_) << "in the way";
  const std::string later = ListOf({2});
  Put("x.pem", later);
  const absl::Status refused = Refresh();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr(" cannot be written: Not a directory"));
  EXPECT_EQ(lists_.text(), before);
  fs::remove(to_);
  fs::rename(scratch_.path() / "kept", to_);
  ASSERT_EQ(Refresh(), absl::OkStatus());
  EXPECT_NE(lists_.text(), before);
  EXPECT_EQ(CopyOf(CopyName(0)), later);
}

TEST_F(RevocationListsTest, AListThatIsNoRegularFileIsAnError) {
  fs::create_directory(from_ / "01234abc.r0");
  EXPECT_THAT(std::string(Refresh().message()),
              HasSubstr("/01234abc.r0 cannot be used: it is no regular file"));
}

TEST_F(RevocationListsTest, AListThatOthersCanWriteIsRefusedUnlessTheyAreAccepted) {
  Put("01234abc.r0", ListOf({1}));
  ASSERT_EQ(chmod((from_ / "01234abc.r0").c_str(), 0666), 0);
  const absl::Status refused = Refresh();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(refused.message(), HasSubstr("mode 0666) can be written by other users"));
  EXPECT_THAT(Copies(), IsEmpty());
  RevocationLists accepting(from_, to_, /*accept_other_users=*/true);
  EXPECT_EQ(accepting.Refresh({}, kListTime), absl::OkStatus());
  EXPECT_THAT(Copies(), ElementsAre(CopyName(0)));
}

}  // namespace
}  // namespace dp::server
