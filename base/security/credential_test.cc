#include "base/security/credential.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>

#include "absl/time/clock.h"
#include "base/security/certificate_authority.h"
#include "base/security/local_credential.h"
#include "base/testing/scratch_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::security {
namespace {

using testing::HasSubstr;

mode_t ModeOf(const std::string& path) {
  struct stat found {};
  EXPECT_EQ(lstat(path.c_str(), &found), 0) << path;
  return found.st_mode & 0777;
}

class CredentialTest : public testing::Test {
 protected:
  const ScratchDir scratch_;
  const std::string dir_ = scratch_.path() / "credential";
  const std::string links_ = scratch_.path() / "links";
};

TEST_F(CredentialTest, ItIsReadAsItWasWrittenAndOnlyItsOwnerMayReadIt) {
  ASSERT_TRUE(WriteCredential(dir_, {.authorities = "CA", .chain = "CHAIN", .key = "KEY"}).ok());
  ASSERT_TRUE(WriteCredential(dir_, {.authorities = "CA2", .token = "TOKEN"}).ok());
  const auto read = ReadCredential(dir_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->authorities, "CA2");
  EXPECT_EQ(read->chain + read->key, "");
  EXPECT_EQ(read->token, "TOKEN");
  EXPECT_EQ(ModeOf(dir_), 0700u);
  EXPECT_EQ(ModeOf(dir_ + "/token"), 0600u);
}

TEST_F(CredentialTest, WhatIsMissingIsNamed) {
  EXPECT_THAT(ReadCredential(dir_).status().message(), HasSubstr("no file ca.crt"));
  ASSERT_TRUE(WriteCredential(dir_, {.authorities = "CA", .chain = "CHAIN", .key = "KEY"}).ok());
  std::filesystem::remove(dir_ + "/tls.key");
  EXPECT_THAT(ReadCredential(dir_).status().message(), HasSubstr("no file tls.key"));
}

TEST_F(CredentialTest, AFileThatCannotBeReadIsNamed) {
  std::filesystem::create_directories(dir_ + "/ca.crt");
  EXPECT_THAT(ReadCredential(dir_).status().message(),
              HasSubstr(dir_ + "/ca.crt cannot be read: Is a directory; let this user"));
}

// Whoever opens a FIFO waits for a writer.
TEST_F(CredentialTest, ASpecialFileIsAnErrorAtOnce) {
  ASSERT_TRUE(WriteCredential(dir_, {.authorities = "CA", .chain = "CHAIN", .key = "KEY"}).ok());
  std::filesystem::remove(dir_ + "/tls.key");
  ASSERT_EQ(mkfifo((dir_ + "/tls.key").c_str(), 0600), 0);
  const absl::Status special = ReadCredential(dir_).status();
  EXPECT_EQ(special.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(special.message(), HasSubstr(dir_ + "/tls.key is no regular file; put one there"));
}

TEST_F(CredentialTest, AFileThatDoesNotParseOrFitIsNamedWithTheRemedy) {
  const auto authority = CertificateAuthority::Make(absl::Now());
  const KeyPair key = KeyPair::Make();
  const std::string ca = authority.certificate().ToPem();
  const Credential good{.authorities = ca, .chain = ca, .key = authority.key().ToPem()};
  EXPECT_EQ(CheckCredential(good, "/d"), absl::OkStatus());
  EXPECT_EQ(CheckCredential({.authorities = ca, .token = "t"}, "/d"), absl::OkStatus());
  const auto why = [&](std::string Credential::*file, const std::string& contents) {
    Credential damaged = good;
    damaged.*file = contents;
    return std::string(CheckCredential(damaged, "/d").message());
  };
  EXPECT_EQ(why(&Credential::authorities, "x"),
            "the credential's file /d/ca.crt holds no whole certificates; log in again, or put the "
            "right file there");
  EXPECT_THAT(why(&Credential::authorities, ca + ca.substr(0, 200)), HasSubstr("/d/ca.crt holds"));
  EXPECT_THAT(why(&Credential::chain, "x"), HasSubstr("/d/tls.crt holds no whole certificates"));
  EXPECT_THAT(why(&Credential::key, "x"), HasSubstr("/d/tls.key holds no whole private key"));
  EXPECT_THAT(why(&Credential::key, key.ToPem()),
              HasSubstr("/d/tls.key holds the key of another certificate than tls.crt; log in"));
}

TEST_F(CredentialTest, ALinkIsFoundByTheAddressOfItsCoordinator) {
  ASSERT_TRUE(WriteCredential(dir_, {.authorities = "CA"}).ok());
  ASSERT_TRUE(LinkLocalCredential("127.0.0.1:7070", dir_, links_).ok());
  EXPECT_EQ(*FindLocalCredential("127.0.0.1:7070", links_), dir_);
  EXPECT_TRUE(absl::IsNotFound(FindLocalCredential("127.0.0.1:7071", links_).status()));
  ASSERT_TRUE(LinkLocalCredential("0.0.0.0:7071", dir_, links_).ok());
  EXPECT_EQ(*FindLocalCredential("10.0.0.1:7071", links_), dir_);
}

TEST_F(CredentialTest, LocalhostIsTheLoopbackAddress) {
  ASSERT_TRUE(WriteCredential(dir_, {.authorities = "CA"}).ok());
  ASSERT_TRUE(LinkLocalCredential("127.0.0.1:1", dir_, links_).ok());
  ASSERT_TRUE(LinkLocalCredential("[::1]:2", dir_, links_).ok());
  EXPECT_EQ(*FindLocalCredential("localhost:1", links_), dir_);
  EXPECT_EQ(*FindLocalCredential("localhost:2", links_), dir_);
  EXPECT_TRUE(absl::IsNotFound(FindLocalCredential("localhost:3", links_).status()));
  EXPECT_TRUE(absl::IsNotFound(FindLocalCredential("node:1", links_).status()));
}

TEST_F(CredentialTest, TheLoopbackAddressIsLocalhost) {
  ASSERT_TRUE(WriteCredential(dir_, {.authorities = "CA"}).ok());
  ASSERT_TRUE(LinkLocalCredential("localhost:1", dir_, links_).ok());
  EXPECT_EQ(*FindLocalCredential("127.0.0.1:1", links_), dir_);
  EXPECT_EQ(*FindLocalCredential("[::1]:1", links_), dir_);
}

TEST_F(CredentialTest, EarlierDaysLinksToDirectoriesThatAreGoneAreRemoved) {
  for (const char* address : {"127.0.0.1:1", "127.0.0.1:2"}) {
    ASSERT_TRUE(LinkLocalCredential(address, dir_, links_).ok());
  }
  const timespec two_days_ago[2] = {{.tv_sec = time(nullptr) - 48 * 3600},
                                    {.tv_sec = time(nullptr) - 48 * 3600}};
  ASSERT_EQ(
      utimensat(AT_FDCWD, (links_ + "/127.0.0.1:1").c_str(), two_days_ago, AT_SYMLINK_NOFOLLOW), 0);
  ASSERT_TRUE(LinkLocalCredential("127.0.0.1:3", scratch_.path(), links_).ok());
  EXPECT_FALSE(std::filesystem::is_symlink(links_ + "/127.0.0.1:1"));
  // Perhaps this process alone does not see where it leads.
  EXPECT_TRUE(std::filesystem::is_symlink(links_ + "/127.0.0.1:2"));
}

// Somebody else could make the directory anew, with a credential of their own.
TEST_F(CredentialTest, ALinkToADirectoryThatIsGoneIsRemovedWhenItIsMet) {
  ASSERT_TRUE(LinkLocalCredential("127.0.0.1:1", dir_, links_).ok());
  EXPECT_TRUE(absl::IsNotFound(FindLocalCredential("127.0.0.1:1", links_).status()));
  EXPECT_FALSE(std::filesystem::is_symlink(links_ + "/127.0.0.1:1"));
}

TEST_F(CredentialTest, ALinkIsRemovedByItsCoordinatorAlone) {
  ASSERT_TRUE(WriteCredential(dir_, {.authorities = "CA"}).ok());
  ASSERT_TRUE(LinkLocalCredential("127.0.0.1:1", dir_, links_).ok());
  UnlinkLocalCredential("127.0.0.1:1", scratch_.path(), links_);
  UnlinkLocalCredential("127.0.0.1:2", dir_, links_);
  EXPECT_EQ(*FindLocalCredential("127.0.0.1:1", links_), dir_);
  UnlinkLocalCredential("127.0.0.1:1", dir_, links_);
  EXPECT_TRUE(absl::IsNotFound(FindLocalCredential("127.0.0.1:1", links_).status()));
}

TEST_F(CredentialTest, ACredentialThatOthersCanReplaceIsNotFoundByALink) {
  ASSERT_TRUE(WriteCredential(dir_, {.authorities = "CA", .chain = "C", .key = "K"}).ok());
  ASSERT_TRUE(LinkLocalCredential("127.0.0.1:1", dir_, links_).ok());
  const std::string key = dir_ + "/" + kKeyFile;
  for (const auto& [path, mode] : {std::pair{dir_, 0700}, std::pair{key, 0600}}) {
    ASSERT_EQ(chmod(path.c_str(), mode | 02), 0);
    const absl::Status refused = FindLocalCredential("127.0.0.1:1", links_).status();
    EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(path + " (of user "));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("--credentials " + dir_));
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
  }
  EXPECT_EQ(*FindLocalCredential("127.0.0.1:1", links_), dir_);
}

TEST_F(CredentialTest, ACredentialOfAnotherUserIsNotFoundByALink) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a directory away";
  ASSERT_TRUE(WriteCredential(dir_, {.authorities = "CA", .chain = "C", .key = "K"}).ok());
  ASSERT_TRUE(LinkLocalCredential("127.0.0.1:1", dir_, links_).ok());
  for (const std::string& path : {dir_, dir_ + "/" + kAuthoritiesFile}) {
    ASSERT_EQ(chown(path.c_str(), 61002, 61002), 0);
    const absl::Status refused = FindLocalCredential("127.0.0.1:1", links_).status();
    EXPECT_THAT(std::string(refused.message()), HasSubstr("belongs to another user, user 61002"));
    ASSERT_EQ(chown(path.c_str(), 0, 0), 0);
  }
}

TEST_F(CredentialTest, ADirectoryOfLinksThatOthersMayWriteIsNotTrusted) {
  ASSERT_TRUE(LinkLocalCredential("127.0.0.1:1", scratch_.path(), links_).ok());
  ASSERT_EQ(chmod(links_.c_str(), 0777), 0);
  const absl::Status refused = FindLocalCredential("127.0.0.1:1", links_).status();
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("log in ('dpctl login')"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--credentials DIR/identity/admin"));
  EXPECT_TRUE(
      absl::IsPermissionDenied(LinkLocalCredential("127.0.0.1:1", scratch_.path(), links_)));
}

// Whoever can write them decides which coordinator the caller trusts.
TEST_F(CredentialTest, FilesThatOthersCanWriteOrKeysThatTheyCanReadAreRefused) {
  ASSERT_TRUE(WriteCredential(dir_, {.authorities = "a", .chain = "b", .key = "c"}).ok());
  EXPECT_EQ(CheckCredentialFiles(dir_), absl::OkStatus());
  for (const auto& [name, mode, remedy] : {std::tuple{"", 0777, "chmod go-w "},
                                           {"/ca.crt", 0666, "chmod go-w "},
                                           {"/tls.crt", 0622, "chmod go-w "},
                                           {"/tls.key", 0644, "chmod 600 "}}) {
    const std::string path = dir_ + name;
    ASSERT_EQ(chmod(path.c_str(), static_cast<mode_t>(mode)), 0);
    const absl::Status refused = CheckCredentialFiles(dir_);
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << path;
    EXPECT_THAT(refused.message(),
                HasSubstr("the credential in " + dir_ + " is not used: " + path));
    EXPECT_THAT(refused.message(), HasSubstr("'" + std::string(remedy) + path + "'"));
    ASSERT_EQ(chmod(path.c_str(), *name == '\0' ? 0700 : 0600), 0);
  }
  for (const char* readable : {"/ca.crt", "/tls.crt"}) {
    ASSERT_EQ(chmod((dir_ + readable).c_str(), 0644), 0);
  }
  EXPECT_EQ(CheckCredentialFiles(dir_), absl::OkStatus());
}

TEST_F(CredentialTest, FilesThatAnotherUserAddsToADirectoryWithTheStickyBitAreRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give files away";
  ASSERT_TRUE(WriteCredential(dir_, {.authorities = "a"}).ok());
  ASSERT_EQ(chmod(dir_.c_str(), 01777), 0);
  EXPECT_EQ(CheckCredentialFiles(dir_), absl::OkStatus());
  std::ofstream(dir_ + "/tls.key") << "key of another user";
  ASSERT_EQ(chown((dir_ + "/tls.key").c_str(), 61002, 61002), 0);
  EXPECT_THAT(CheckCredentialFiles(dir_).message(), HasSubstr("another user, user 61002"));
}

TEST_F(CredentialTest, ADirectoryIsPreparedOrSaysWhyNothingCanBeWrittenThere) {
  EXPECT_EQ(PrepareCredentialDir(dir_, false), absl::OkStatus());
  EXPECT_EQ(ModeOf(dir_), 0700u);
  EXPECT_TRUE(std::filesystem::is_empty(dir_));
  std::filesystem::create_directory(dir_ + "/probe.new");
  for (const bool accept_other_users : {false, true}) {
    EXPECT_THAT(PrepareCredentialDir(dir_, accept_other_users).message(),
                HasSubstr(dir_ + "/probe cannot be written"));
  }
  std::filesystem::remove(dir_ + "/probe.new");
  ASSERT_EQ(chmod(dir_.c_str(), 0777), 0);
  EXPECT_EQ(PrepareCredentialDir(dir_, true), absl::OkStatus());
  EXPECT_THAT(PrepareCredentialDir(dir_, false).message(),
              HasSubstr("can be written by other users"));
  std::ofstream(links_) << "file";
  EXPECT_THAT(PrepareCredentialDir(links_ + "/below", false).message(),
              HasSubstr("cannot be written"));
}

}  // namespace
}  // namespace dp::security
