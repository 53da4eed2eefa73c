#include "client/certificate_copies.h"

#include <fstream>
#include <iterator>
#include <string>

#include "base/security/certificate_authority.h"
#include "base/testing/scratch_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::client {
namespace {

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class CertificateCopiesTest : public testing::Test {
 protected:
  // A credential of its own key.
  security::Credential Issue() const {
    const security::KeyPair key = security::KeyPair::Make();
    const auto certificate = authority_.Issue(
        key.SigningRequest(),
        {.identity = {security::Role::kWorker, "node1"}, .lifetime = absl::Hours(24)}, absl::Now());
    return {.authorities = authority_.certificate().ToPem(),
            .chain = certificate->ToPem(),
            .key = key.ToPem()};
  }
  std::shared_ptr<CertificateCopies> Copy(const security::Credential& credential) const {
    EXPECT_EQ(security::WriteCredential(dir_, credential), absl::OkStatus());
    return CertificateCopies::Make(dir_, credential).value();
  }
  void Put(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ + "/" + name, std::ios::binary) << text;
  }

  const ScratchDir scratch_;
  const std::string dir_ = scratch_.path() / "credential";
  const security::CertificateAuthority authority_ =
      security::CertificateAuthority::Make(absl::Now());
};

TEST_F(CertificateCopiesTest, FollowTheFilesOnceTheyFit) {
  const auto copies = Copy(Issue());
  const security::Credential renewed = Issue();
  Put(security::kChainFile, renewed.chain);
  EXPECT_FALSE(copies->Refresh().ok());  // its key is yet to come
  EXPECT_NE(Read(copies->chain_file()), renewed.chain);
  Put(security::kKeyFile, renewed.key);
  EXPECT_EQ(copies->Refresh(), absl::OkStatus());
  EXPECT_EQ(Read(copies->chain_file()), renewed.chain);
  EXPECT_EQ(Read(copies->key_file()), renewed.key);
}

TEST_F(CertificateCopiesTest, StayAsTheyAreWhileTheFilesCannotBeUsed) {
  const security::Credential first = Issue();
  const auto copies = Copy(first);
  for (const char* const name : {security::kChainFile, security::kKeyFile})
    for (const std::string& text : {std::string(), std::string("damaged")}) {
      Put(name, text);
      EXPECT_FALSE(copies->Refresh().ok()) << name << text;
      EXPECT_EQ(Read(copies->chain_file()), first.chain) << name << text;
      EXPECT_EQ(Read(copies->key_file()), first.key) << name << text;
      ASSERT_EQ(security::WriteCredential(dir_, first), absl::OkStatus());
    }
}

TEST_F(CertificateCopiesTest, AShorterOneLeavesNothingOfTheLongerOneBehind) {
  security::Credential longer = Issue();
  longer.chain += authority_.certificate().ToPem();
  const auto copies = Copy(longer);
  const security::Credential shorter = Issue();
  ASSERT_EQ(security::WriteCredential(dir_, shorter), absl::OkStatus());
  EXPECT_EQ(copies->Refresh(), absl::OkStatus());
  EXPECT_EQ(Read(copies->chain_file()), shorter.chain);
}

}  // namespace
}  // namespace dp::client
