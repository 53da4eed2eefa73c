#include "server/program/identity_dir.h"

#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/security/certificate.h"
#include "base/security/certificate_authority.h"
#include "base/security/credential.h"
#include "base/testing/scratch_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using security::Certificate;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
constexpr absl::Duration kDay = absl::Hours(24);

class IdentityDirTest : public testing::Test {
 protected:
  IdentityDir Open(absl::Time now = kNow) const {
    auto dir = IdentityDir::Open(path_, options_, now);
    EXPECT_TRUE(dir.ok()) << dir.status();
    return *std::move(dir);
  }
  absl::Status WhyNotOpened() const { return IdentityDir::Open(path_, options_, kNow).status(); }

  std::string Read(const std::string& name) const {
    std::ifstream file(path_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
  }
  Certificate CertificateIn(const std::string& name) const {
    return *Certificate::FromPem(Read(name));
  }
  // All of these together.
  std::string ReadAll(const std::vector<std::string>& names) const {
    std::string all;
    for (const std::string& name : names) all += Read(name);
    return all;
  }
  // The key in a file, with one bit of its private part changed.
  std::string WithOtherSecret(const std::string& name) const {
    constexpr size_t kSecretAt = 36;  // in PKCS #8 of a key on P-256
    const std::string pem = Read(name);
    const size_t begin = pem.find('\n') + 1, end = pem.find("-----END");
    std::string bytes;
    EXPECT_TRUE(absl::Base64Unescape(
        absl::StrReplaceAll(pem.substr(begin, end - begin), {{"\n", ""}}), &bytes));
    bytes[kSecretAt + 31] ^= 1;
    return absl::StrCat(pem.substr(0, begin), absl::Base64Escape(bytes), "\n", pem.substr(end));
  }
  std::string OtherAuthority() const {
    return security::CertificateAuthority::Make(kNow).certificate().ToPem();
  }
  mode_t ModeOf(const std::string& name) const {
    struct stat found {};
    EXPECT_EQ(stat((path_ / name).c_str(), &found), 0) << name;
    return found.st_mode & 0777;
  }

  const ScratchDir scratch_;
  const std::filesystem::path path_ = scratch_.path() / "identity";
  const std::string clients_file_ = scratch_.path() / "clients.crt";
  IdentityOptions options_{.hosts = {"127.0.0.1", "node"}};
};

constexpr char kDamagedKey[] = "-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----\n";
const std::vector<std::string> kAuthorityFiles = {"ca.crt", "ca.key", "token.key"};

TEST_F(IdentityDirTest, TheFirstStartMakesEverythingForItsOwnerOnly) {
  EXPECT_TRUE(Open().made());
  for (const char* name :
       {"ca.crt", "ca.key", "token.key", "secret.key", "server/tls.crt", "server/tls.key",
        "server/ca.crt", "admin/tls.crt", "admin/tls.key", "admin/ca.crt"}) {
    EXPECT_EQ(ModeOf(name), 0600u) << name;
  }
  for (const char* name : {".", "server", "admin"}) EXPECT_EQ(ModeOf(name), 0700u) << name;
}

TEST_F(IdentityDirTest, ACopyThatOthersCanReadIsClosed) {
  Open();
  for (const char* name : {".", "server"}) ASSERT_EQ(chmod((path_ / name).c_str(), 0755), 0);
  ASSERT_EQ(chmod((path_ / "token.key").c_str(), 0644), 0);
  Open();
  for (const char* name : {".", "server"}) EXPECT_EQ(ModeOf(name), 0700u) << name;
  EXPECT_EQ(ModeOf("token.key"), 0600u);
}

// Others may have put keys of their own there.
TEST_F(IdentityDirTest, FilesThatOthersCanWriteAreRefused) {
  Open();
  for (const char* name : {"", "ca.key", "token.key", "server", "admin/tls.key"}) {
    const std::filesystem::path path = *name == '\0' ? path_ : path_ / name;
    const mode_t mode = std::filesystem::is_directory(path) ? 0700 : 0600;
    ASSERT_EQ(chmod(path.c_str(), mode | 022), 0);
    const absl::Status refused = WhyNotOpened();
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << path;
    EXPECT_THAT(refused.message(), HasSubstr(path.string() + " (of user "));
    EXPECT_THAT(refused.message(), HasSubstr("can be written by other users"));
    EXPECT_THAT(refused.message(), HasSubstr("--data-dir"));
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
  }
  (void)Open();
}

TEST_F(IdentityDirTest, FilesOfAnotherUserAreRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a directory away";
  Open();
  for (const char* name : {".", "ca.key", "server", "admin/tls.crt"}) {
    ASSERT_EQ(chown((path_ / name).c_str(), 61002, 61002), 0);
    EXPECT_THAT(WhyNotOpened().message(), HasSubstr("belongs to another user, user 61002"));
    ASSERT_EQ(chown((path_ / name).c_str(), 0, 0), 0);
  }
  (void)Open();
}

TEST_F(IdentityDirTest, FilesOfOthersAreUsedWhereOtherUsersAreAccepted) {
  Open();
  ASSERT_EQ(chmod(path_.c_str(), 0777), 0);
  options_.accept_other_users = true;
  (void)Open();
  EXPECT_EQ(ModeOf("."), 0700u);
}

TEST_F(IdentityDirTest, SecretsAreOpenedByTheKeyOfTheFirstStart) {
  const std::string sealed = Open().authority().secrets().Seal("hf_abc", "place");
  EXPECT_EQ(Open().authority().secrets().Open(sealed, "place").value_or(""), "hf_abc");
  EXPECT_EQ(Read("secret.key").size(), security::SealingKey::kBytes);
}

// A directory of an earlier release has none. Sealed secrets then say that another key sealed them.
TEST_F(IdentityDirTest, AMissingKeyOfSecretsIsMadeAgain) {
  const std::string sealed = Open().authority().secrets().Seal("hf_abc", "place");
  std::filesystem::remove(path_ / "secret.key");
  EXPECT_TRUE(
      absl::IsFailedPrecondition(Open().authority().secrets().Open(sealed, "place").status()));
  EXPECT_EQ(ModeOf("secret.key"), 0600u);
}

TEST_F(IdentityDirTest, ADamagedKeyOfSecretsIsNotReplaced) {
  Open();
  Write("secret.key", "short");
  EXPECT_THAT(std::string(WhyNotOpened().message()),
              HasSubstr("secret.key: a key of secrets has 32 bytes, not 5; restore it"));
  EXPECT_EQ(Read("secret.key"), "short");
}

TEST_F(IdentityDirTest, TheCertificatesAreOfTheNewAuthority) {
  const IdentityDir dir = Open();
  const Certificate server = CertificateIn("server/tls.crt"),
                    admin = CertificateIn("admin/tls.crt");
  const Certificate& authority = dir.authority().certificates().certificate();
  EXPECT_EQ(security::ToString(*server.identity()), "coordinator dp");
  EXPECT_EQ(security::ToString(*admin.identity()), "admin admin");
  EXPECT_TRUE(server.IsSignedBy(authority) && admin.IsSignedBy(authority));
  EXPECT_EQ(Read("server/ca.crt"), authority.ToPem());
  EXPECT_EQ(security::ReadCredential(dir.admin_dir())->authorities, authority.ToPem());
}

TEST_F(IdentityDirTest, TheNextStartFindsTheSame) {
  const std::vector<std::string> all = {"ca.crt",         "ca.key",         "token.key",
                                        "server/tls.crt", "server/tls.key", "admin/tls.crt",
                                        "admin/tls.key"};
  (void)Open();
  const std::string before = ReadAll(all);
  const IdentityDir again = Open(kNow + kDay);
  EXPECT_FALSE(again.made());
  EXPECT_EQ(ReadAll(all), before);
  EXPECT_EQ(again.authority().tokens().bytes(), Read("token.key"));
}

TEST_F(IdentityDirTest, ADamagedFileIsNamed) {
  for (const std::string& name : kAuthorityFiles) {
    (void)Open();
    const std::string good = Read(name);
    Write(name, good.substr(0, good.size() / 2));
    const absl::Status damaged = WhyNotOpened();
    EXPECT_EQ(damaged.code(), absl::StatusCode::kFailedPrecondition) << name;
    EXPECT_THAT(damaged.message(), HasSubstr((path_ / name).string()));
    EXPECT_THAT(damaged.message(), HasSubstr("backup"));
    Write(name, good);
  }
}

TEST_F(IdentityDirTest, TheKeyOfAnotherAuthorityIsNotUsed) {
  (void)Open();
  Write("ca.key", security::KeyPair::Make().ToPem());
  const absl::Status other = WhyNotOpened();
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(other.message(), HasSubstr("ca.key: the authority's key is not that of"));
}

TEST_F(IdentityDirTest, AMissingKeyIsNotMadeAnew) {
  for (const char* name : {"ca.key", "token.key"}) {
    (void)Open();
    std::filesystem::rename(path_ / name, scratch_.path() / "aside");
    EXPECT_THAT(WhyNotOpened().message(),
                HasSubstr((path_ / name).string() + ": it is missing; restore it"));
    EXPECT_FALSE(std::filesystem::exists(path_ / name));
    std::filesystem::rename(scratch_.path() / "aside", path_ / name);
  }
}

TEST_F(IdentityDirTest, AFirstStartThatWasCutOffIsCompleted) {
  std::filesystem::create_directories(path_);
  Write("ca.key", security::KeyPair::Make().ToPem());
  EXPECT_TRUE(Open().made());
  const std::string completed = ReadAll(kAuthorityFiles);
  EXPECT_FALSE(Open().made());
  EXPECT_EQ(ReadAll(kAuthorityFiles), completed);
}

TEST_F(IdentityDirTest, AnAuthorityThatWasLostIsNotReplacedByAnother) {
  (void)Open();
  std::filesystem::remove(path_ / "ca.crt");
  EXPECT_THAT(WhyNotOpened().message(), HasSubstr("ca.crt: it is missing; restore it"));
  EXPECT_FALSE(std::filesystem::exists(path_ / "ca.crt"));
}

TEST_F(IdentityDirTest, TheAdministratorCanGetANewCertificateAtAnyTime) {
  IdentityDir dir = Open();
  const std::string key = Read("admin/tls.key");
  ASSERT_TRUE(dir.RenewAdmin(kNow + absl::Hours(1)).ok());
  EXPECT_EQ(CertificateIn("admin/tls.crt").not_before(),
            kNow + absl::Hours(1) - security::CertificateAuthority::kClockSkew);
  EXPECT_EQ(Read("admin/tls.key"), key);
}

TEST_F(IdentityDirTest, TheServersCertificateIsRenewedForTheSameKeyWhenHalfItsLifeIsOver) {
  IdentityDir dir = Open();
  const std::string first = Read("server/tls.crt"), key = Read("server/tls.key");
  ASSERT_TRUE(dir.Refresh(kNow + 44 * kDay).ok());
  EXPECT_EQ(Read("server/tls.crt"), first);
  ASSERT_TRUE(dir.Refresh(kNow + 46 * kDay).ok());
  EXPECT_EQ(CertificateIn("server/tls.crt").not_after(),
            kNow + 46 * kDay + Authority::kOfCoordinators);
  EXPECT_EQ(Read("server/tls.key"), key);
}

TEST_F(IdentityDirTest, TheAdministratorsCertificateIsRenewedForTheSameKeyWhenHalfItsLifeIsOver) {
  IdentityDir dir = Open();
  const std::string first = Read("admin/tls.crt"), key = Read("admin/tls.key");
  ASSERT_TRUE(dir.Refresh(kNow + 14 * kDay).ok());
  EXPECT_EQ(Read("admin/tls.crt"), first);
  ASSERT_TRUE(dir.Refresh(kNow + 16 * kDay).ok());
  EXPECT_EQ(CertificateIn("admin/tls.crt").not_after(), kNow + 16 * kDay + Authority::kOfPeople);
  EXPECT_EQ(Read("admin/tls.key"), key);
}

TEST_F(IdentityDirTest, AStartAfterTheCertificatesHaveExpiredMakesNewOnes) {
  (void)Open();
  (void)Open(kNow + 200 * kDay);
  EXPECT_GT(CertificateIn("server/tls.crt").not_after(), kNow + 200 * kDay);
  EXPECT_GT(CertificateIn("admin/tls.crt").not_after(), kNow + 200 * kDay);
}

TEST_F(IdentityDirTest, ADamagedCertificateIsReplaced) {
  IdentityDir dir = Open();
  Write("server/tls.crt", "damaged");
  Write("admin/tls.crt", "damaged");
  ASSERT_TRUE(dir.Refresh(kNow).ok());
  EXPECT_TRUE(Certificate::FromPem(Read("server/tls.crt")).ok());
  EXPECT_TRUE(Certificate::FromPem(Read("admin/tls.crt")).ok());
}

TEST_F(IdentityDirTest, NewHostsGiveANewServerCertificate) {
  (void)Open();
  const std::string before = Read("server/tls.crt"), key = Read("server/tls.key");
  options_.hosts.push_back("dp.example.org");
  (void)Open();
  const std::string after = Read("server/tls.crt");
  EXPECT_NE(after, before);
  EXPECT_EQ(X509_check_host(CertificateIn("server/tls.crt").get(), "dp.example.org", 0, 0, nullptr),
            1);
  EXPECT_EQ(Read("server/tls.key"), key);
  (void)Open();
  EXPECT_EQ(Read("server/tls.crt"), after);
}

TEST_F(IdentityDirTest, FurtherAuthoritiesOfCallersAreTakenOverWheneverTheirFileChanges) {
  const std::string one = OtherAuthority(), two = OtherAuthority();
  options_.clients_file = clients_file_;
  Write(clients_file_, one);
  IdentityDir dir = Open();
  EXPECT_EQ(Read("server/ca.crt"), Read("ca.crt") + one);
  Write(clients_file_, one + two);
  ASSERT_TRUE(dir.Refresh(kNow).ok());
  EXPECT_EQ(Read("server/ca.crt"), Read("ca.crt") + one + two);
  EXPECT_EQ(dir.tls().clients_file, path_ / "server/ca.crt");
}

TEST_F(IdentityDirTest, CertificatesMadeWhileTheClockWasAheadAreMadeAgain) {
  Open();
  ASSERT_TRUE(IdentityDir::Open(path_, options_, kNow + 50 * kDay).ok());
  ASSERT_GT(CertificateIn("server/tls.crt").not_before(), kNow);
  Open();
  for (const char* name : {"server/tls.crt", "admin/tls.crt"})
    EXPECT_LE(CertificateIn(name).not_before(), kNow) << name;
}

TEST_F(IdentityDirTest, AFileOfAuthoritiesThatIsDamagedOrGoneChangesNothing) {
  const std::string one = OtherAuthority();
  options_.clients_file = clients_file_;
  Write(clients_file_, one);
  IdentityDir dir = Open();
  const std::string before = Read("server/ca.crt");
  for (const std::string& wrong :
       {std::string(), std::string("no certificate"), one + one.substr(0, one.size() / 2),
        Read("ca.key"), one + kDamagedKey + one}) {
    Write(clients_file_, wrong);
    const absl::Status refreshed = dir.Refresh(kNow);
    EXPECT_EQ(refreshed.code(), absl::StatusCode::kFailedPrecondition) << wrong;
    EXPECT_THAT(refreshed.message(), HasSubstr(clients_file_));
  }
  std::filesystem::remove(clients_file_);
  EXPECT_EQ(dir.Refresh(kNow).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Read("server/ca.crt"), before);
}

TEST_F(IdentityDirTest, TheCertificateOfSomebodyWhoIsNoAuthorityIsNamed) {
  (void)Open();
  options_.clients_file = clients_file_;
  Write(clients_file_, OtherAuthority() + Read("admin/tls.crt"));
  const absl::Status refused = IdentityDir::Open(path_, options_, kNow).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused.message(),
            "--client-ca " + clients_file_ +
                ": the certificate of admin admin is no authority's; the file must hold the "
                "certificates of authorities, in PEM");
}

// gRPC would stop reading at a text such as this one.
TEST_F(IdentityDirTest, OnlyCertificatesAreTakenOverFromAFileOfAuthorities) {
  const std::string one = OtherAuthority();
  options_.clients_file = clients_file_;
  Write(clients_file_, "# of the company\n" + one + Read("ca.key") + "-----BEGIN KEY");
  (void)Open();
  EXPECT_EQ(Read("server/ca.crt"), Read("ca.crt") + one);
}

// gRPC would accept revoked certificates without a word.
TEST_F(IdentityDirTest, ADirectoryOfRevocationListsThatCannotBeReadIsRefused) {
  (void)Open();
  const std::string before = Read("server/ca.crt");
  std::ofstream(clients_file_) << "file";
  for (const std::string& wrong : {clients_file_, std::string("/nonexistent/lists")}) {
    options_.crl_dir = wrong;
    const absl::Status refused = WhyNotOpened();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(refused.message(), HasSubstr("--crl-dir " + wrong + " cannot be read: "));
    EXPECT_THAT(refused.message(), HasSubstr("name a directory of revocation lists"));
  }
  EXPECT_EQ(Read("server/ca.crt"), before);
}

// Whoever can write these becomes an administrator.
TEST_F(IdentityDirTest, AuthoritiesAndListsThatOthersCanWriteAreRefused) {
  options_.clients_file = clients_file_;
  Write(clients_file_, OtherAuthority());
  options_.crl_dir = scratch_.path() / "lists";
  std::filesystem::create_directory(options_.crl_dir);
  IdentityDir dir = Open();
  for (const std::string& path : {clients_file_, options_.crl_dir}) {
    const mode_t mode = std::filesystem::is_directory(path) ? 0755 : 0644;
    ASSERT_EQ(chmod(path.c_str(), mode | 022), 0);
    for (const absl::Status& refused : {WhyNotOpened(), dir.Refresh(kNow)}) {
      EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << path;
      EXPECT_THAT(refused.message(), HasSubstr(" " + path + " is not used: " + path));
      EXPECT_THAT(refused.message(), HasSubstr("can be written by other users"));
    }
    options_.accept_other_users = true;
    testing::internal::CaptureStderr();
    (void)Open();
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("event=given_file_open_to_others"));
    options_.accept_other_users = false;
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
  }
  EXPECT_EQ(dir.Refresh(kNow), absl::OkStatus());
}

TEST_F(IdentityDirTest, ADirectoryAboveTheAuthoritiesThatOthersCanWriteIsRefused) {
  const auto above = scratch_.path() / "open";
  std::filesystem::create_directory(above);
  options_.clients_file = above / "clients.crt";
  Write(options_.clients_file, OtherAuthority());
  ASSERT_EQ(chmod(above.c_str(), 0777), 0);
  EXPECT_THAT(WhyNotOpened().message(), HasSubstr(above.string() + " (of user "));
}

// OpenSSL would trust certificates in the directory that it is given.
TEST_F(IdentityDirTest, OpenSslGetsACopyOfTheListsAlone) {
  options_.crl_dir = scratch_.path() / "lists";
  std::filesystem::create_directory(options_.crl_dir);
  IdentityDir dir = Open();
  EXPECT_EQ(dir.tls().crl_dir, path_ / "server/lists");
  Write(options_.crl_dir + "/01234abc.0", OtherAuthority());
  const std::string before = Read("server/ca.crt");
  ASSERT_EQ(dir.Refresh(kNow), absl::OkStatus());
  EXPECT_TRUE(std::filesystem::is_empty(dir.tls().crl_dir));
  EXPECT_EQ(Read("server/ca.crt"), before);
  EXPECT_EQ(ModeOf("server/lists"), 0700u);
}

TEST_F(IdentityDirTest, ALostOrExchangedKeyIsMadeAgainWithItsCertificate) {
  for (const std::string dir : {"server", "admin"}) {
    (void)Open();
    for (const std::string& wrong :
         {std::string(), security::KeyPair::Make().ToPem(), WithOtherSecret(dir + "/tls.key")}) {
      Write(dir + "/tls.key", wrong);
      (void)Open();
      const auto key = security::KeyPair::FromPem(Read(dir + "/tls.key"));
      EXPECT_TRUE(key.ok() && key->IsWhole()) << dir;
      EXPECT_TRUE(key.ok() && CertificateIn(dir + "/tls.crt").Fits(*key)) << dir;
    }
  }
}

TEST_F(IdentityDirTest, AFileOfAuthoritiesThatIsDamagedLetsNothingElseExpire) {
  IdentityDir dir = Open();
  options_.clients_file = clients_file_;
  Write(clients_file_, "damaged");
  EXPECT_FALSE(IdentityDir::Open(path_, options_, kNow + 29 * kDay).ok());
  EXPECT_GT(CertificateIn("admin/tls.crt").not_after(), kNow + 50 * kDay);
}

class GivenCertificateTest : public IdentityDirTest {
 protected:
  GivenCertificateTest() {
    options_.chain_file = scratch_.path() / "tls.crt";
    options_.key_file = scratch_.path() / "tls.key";
    const security::KeyPair key = security::KeyPair::Make();
    const auto certificate = security::CertificateAuthority::Make(kNow).Issue(
        key.SigningRequest(), {.identity = {security::Role::kCoordinator, "c"}, .lifetime = kDay},
        kNow);
    Write(options_.chain_file, certificate->ToPem());
    Write(options_.key_file, key.ToPem());
    EXPECT_EQ(chmod(options_.key_file.c_str(), 0600), 0);
  }
};

TEST_F(GivenCertificateTest, ACopyOfItIsUsed) {
  const IdentityDir dir = Open();
  EXPECT_EQ(Read(dir.tls().chain_file), Read(options_.chain_file));
  EXPECT_EQ(Read(dir.tls().key_file), Read(options_.key_file));
  EXPECT_FALSE(std::filesystem::exists(path_ / "server/tls.crt"));
}

// gRPC ends the process at an empty file, and fails all handshakes by a pair that does not fit.
TEST_F(GivenCertificateTest, OnlyAWholePairReplacesTheCopy) {
  IdentityDir dir = Open();
  const std::string chain = Read(options_.chain_file), key = Read(options_.key_file);
  for (const std::string& text : {std::string(), std::string("damaged"), chain.substr(0, 100)}) {
    Write(options_.chain_file, text);
    EXPECT_FALSE(dir.Refresh(kNow).ok()) << text;
    Write(options_.chain_file, chain);
    Write(options_.key_file, text);
    EXPECT_FALSE(dir.Refresh(kNow).ok()) << text;
    Write(options_.key_file, key);
    EXPECT_EQ(Read(dir.tls().chain_file), chain) << text;
    EXPECT_EQ(Read(dir.tls().key_file), key) << text;
  }
  const security::KeyPair renewed_key = security::KeyPair::Make();
  const auto renewed = security::CertificateAuthority::Make(kNow).Issue(
      renewed_key.SigningRequest(),
      {.identity = {security::Role::kCoordinator, "c"}, .lifetime = kDay}, kNow);
  Write(options_.chain_file, renewed->ToPem());
  EXPECT_FALSE(dir.Refresh(kNow).ok());  // its key is yet to come
  EXPECT_EQ(Read(dir.tls().chain_file), chain);
  Write(options_.key_file, renewed_key.ToPem());
  EXPECT_EQ(dir.Refresh(kNow), absl::OkStatus());
  EXPECT_EQ(Read(dir.tls().chain_file), renewed->ToPem());
  EXPECT_EQ(Read(dir.tls().key_file), renewed_key.ToPem());
}

TEST_F(GivenCertificateTest, OneThatOthersCanWriteOrWhoseKeyTheyCanReadIsRefused) {
  (void)Open();
  ASSERT_EQ(chmod(options_.key_file.c_str(), 0644), 0);
  EXPECT_THAT(WhyNotOpened().message(),
              HasSubstr("--tls-key " + options_.key_file + " is not used: " + options_.key_file));
  EXPECT_THAT(WhyNotOpened().message(), HasSubstr("'chmod 600 " + options_.key_file + "'"));
  ASSERT_EQ(chmod(options_.key_file.c_str(), 0600), 0);
  ASSERT_EQ(chmod(options_.chain_file.c_str(), 0666), 0);
  EXPECT_THAT(WhyNotOpened().message(), HasSubstr("--tls-cert " + options_.chain_file + " is not"));
  options_.accept_other_users = true;
  (void)Open();
}

TEST_F(GivenCertificateTest, OneThatCannotBeUsedIsNamed) {
  IdentityDir dir = Open();
  EXPECT_THAT(std::string(dir.Refresh(kNow + 2 * kDay).message()),
              HasSubstr("--tls-cert " + options_.chain_file + ": the certificate expired at"));
  Write(options_.key_file, security::KeyPair::Make().ToPem());
  EXPECT_THAT(std::string(WhyNotOpened().message()),
              HasSubstr("--tls-key " + options_.key_file + ": it is not the key"));
  Write(options_.key_file, "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIF\n");
  EXPECT_THAT(std::string(WhyNotOpened().message()),
              HasSubstr("--tls-key " + options_.key_file + ": the key is encrypted; give one"));
  Write(options_.key_file, "damaged");
  EXPECT_THAT(std::string(WhyNotOpened().message()), HasSubstr("--tls-key " + options_.key_file));
  Write(options_.chain_file, "damaged");
  EXPECT_THAT(std::string(WhyNotOpened().message()),
              HasSubstr("--tls-cert " + options_.chain_file));
  std::filesystem::remove(options_.chain_file);
  EXPECT_EQ(WhyNotOpened().code(), absl::StatusCode::kPermissionDenied);
}

// Whoever opens a FIFO waits for a writer.
TEST_F(GivenCertificateTest, ASpecialFileIsAnErrorAtOnce) {
  (void)Open();
  std::filesystem::remove(options_.key_file);
  ASSERT_EQ(mkfifo(options_.key_file.c_str(), 0600), 0);
  EXPECT_EQ(WhyNotOpened().message(), "--tls-key " + options_.key_file + " is no regular file");
}

// A certificate of another authority would end each handshake of a program that trusts this one.
TEST_F(GivenCertificateTest, TokensLeadToItOnlyIfTheAuthorityHasSignedItAndIsShown) {
  EXPECT_FALSE(Open().tls().own_certificate);
  Write(options_.chain_file, Read(options_.chain_file) + Read("ca.crt"));
  EXPECT_FALSE(Open().tls().own_certificate);
  const auto authority = security::CertificateAuthority::FromPem(Read("ca.crt"), Read("ca.key"));
  const security::KeyPair key = security::KeyPair::Make();
  const auto signed_here =
      authority->Issue(key.SigningRequest(),
                       {.identity = {security::Role::kCoordinator, "c"}, .lifetime = kDay}, kNow);
  Write(options_.key_file, key.ToPem());
  Write(options_.chain_file, signed_here->ToPem());
  EXPECT_FALSE(Open().tls().own_certificate);
  Write(options_.chain_file, signed_here->ToPem() + Read("ca.crt"));
  EXPECT_TRUE(Open().tls().own_certificate);
  options_.chain_file = options_.key_file = "";
  EXPECT_TRUE(Open().tls().own_certificate);
}

TEST_F(IdentityDirTest, ThisMachineHasAtLeastItsLoopbackAddresses) {
  EXPECT_THAT(HostsOfThisMachine(), testing::IsSupersetOf({"localhost", "127.0.0.1", "::1"}));
}

}  // namespace
}  // namespace dp::server
