#include "client/dpctl/program/machine_logins.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/file_descriptor.h"
#include "base/security/certificate_authority.h"
#include "base/testing/scratch_dir.h"
#include "client/dpctl/testing/fake_access.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::ctl {
namespace {

using security::KeyPair;
using ::testing::HasSubstr;

const absl::Time kMadeAt = absl::FromUnixSeconds(1'800'000'000);
constexpr absl::Duration kDay = absl::Hours(24);

// The login lies in a directory of its own, with a certificate of 30 days.
class MachineLoginsTest : public ::testing::Test {
 protected:
  MachineLoginsTest() {
    Write(key_, kMadeAt);
    access_.renew = [this](const std::string& signing_request) {
      ++renewals_;
      on_renew_();
      return Issue(signing_request, kMadeAt + 20 * kDay);
    };
  }

  std::string Issue(const std::string& signing_request, absl::Time at) const {
    const security::Grant grant{.identity = {security::Role::kUser, "ann"}, .lifetime = 30 * kDay};
    return authority_.Issue(signing_request, grant, at).value().ToPem();
  }
  void Write(const KeyPair& key, absl::Time at) const {
    const auto written = security::WriteCredential(dir_, {.authorities = "authorities",
                                                          .chain = Issue(key.SigningRequest(), at),
                                                          .key = key.ToPem()});
    EXPECT_TRUE(written.ok()) << written;
  }
  security::Credential Stored() const { return security::ReadCredential(dir_).value(); }
  absl::Time Expiry() const {
    return security::Certificate::FromPem(Stored().chain).value().not_after();
  }
  absl::Status RenewAt(absl::Time now) { return RenewLogin(dir_, *server_.Connect(), now); }

  const security::CertificateAuthority authority_ = security::CertificateAuthority::Make(kMadeAt);
  const KeyPair key_ = KeyPair::Make();
  const dp::ScratchDir scratch_;
  const std::string dir_ = scratch_.path() / "login";
  int renewals_ = 0;
  std::function<void()> on_renew_ = [] {};
  FakeAccess access_;
  client::InProcess server_{access_};
};

TEST_F(MachineLoginsTest, ALoginWithHalfOfItsTimeLeftStays) {
  EXPECT_TRUE(RenewAt(kMadeAt + 14 * kDay).ok());
  EXPECT_EQ(renewals_, 0);
  EXPECT_EQ(Expiry(), kMadeAt + 30 * kDay);
}

TEST_F(MachineLoginsTest, LaterItGetsACertificateOfTheSameKey) {
  EXPECT_TRUE(RenewAt(kMadeAt + 16 * kDay).ok());
  EXPECT_EQ(renewals_, 1);
  EXPECT_EQ(Expiry(), kMadeAt + 50 * kDay);
  EXPECT_EQ(Stored().key, key_.ToPem());
}

TEST_F(MachineLoginsTest, OfTwoProcessesOneRenews) {
  const FileDescriptor other(open((dir_ + "/renewal.lock").c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_EQ(flock(other.get(), LOCK_EX), 0);
  EXPECT_TRUE(RenewAt(kMadeAt + 16 * kDay).ok());
  EXPECT_EQ(renewals_, 0);
}

TEST_F(MachineLoginsTest, ALoginMeanwhileIsNotOverwritten) {
  const KeyPair later = KeyPair::Make();
  on_renew_ = [&] { Write(later, kMadeAt + 16 * kDay); };
  EXPECT_TRUE(RenewAt(kMadeAt + 16 * kDay).ok());
  EXPECT_EQ(renewals_, 1);
  EXPECT_EQ(Stored().key, later.ToPem());
  EXPECT_EQ(Expiry(), kMadeAt + 46 * kDay);
}

TEST_F(MachineLoginsTest, ARenewalThatIsDeniedChangesNothing) {
  access_.denied = absl::UnauthenticatedError("revoked");
  EXPECT_TRUE(absl::IsUnauthenticated(RenewAt(kMadeAt + 16 * kDay)));
  EXPECT_EQ(Expiry(), kMadeAt + 30 * kDay);
}

TEST_F(MachineLoginsTest, ALoginIsRemovedOnce) {
  EXPECT_TRUE(RemoveLogin(dir_).value());
  EXPECT_FALSE(std::filesystem::exists(dir_));
  EXPECT_FALSE(RemoveLogin(dir_).value());
}

// The environment decides where logins are.
class LoginPlaceTest : public MachineLoginsTest {
 protected:
  LoginPlaceTest() {
    for (const char* name : {"HOME", "XDG_CONFIG_HOME"}) {
      const char* value = std::getenv(name);
      before_.push_back(
          {name, value == nullptr ? std::nullopt : std::optional<std::string>(value)});
      unsetenv(name);
    }
  }
  ~LoginPlaceTest() override {
    for (const auto& [name, value] : before_) {
      value ? setenv(name, value->c_str(), 1) : unsetenv(name);
    }
  }

  const Logins logins_ = MachineLogins();
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

TEST_F(LoginPlaceTest, WithoutAHomeThereIsNoPlace) {
  const auto dir = logins_.dir("host:1");
  EXPECT_TRUE(absl::IsFailedPrecondition(dir.status()));
  EXPECT_THAT(std::string(dir.status().message()), HasSubstr("neither HOME nor XDG_CONFIG_HOME"));
}

TEST_F(LoginPlaceTest, OnlyTheLoginThatAConnectionUsesIsRenewed) {
  Write(key_, absl::FromUnixSeconds(1'500'000'000));  // due at any time
  setenv("HOME", scratch_.path().c_str(), 1);
  std::filesystem::create_directories(scratch_.path() / ".config/dp/credentials");
  std::filesystem::rename(dir_, logins_.dir("host:1").value());
  const auto connection = server_.Connect();
  logins_.renew(*connection, "host:1", {.dir = "/elsewhere"});
  logins_.renew(*connection, "host:1", {.insecure = true});
  logins_.renew(*connection, "host:2", {});
  EXPECT_EQ(renewals_, 0);
  logins_.renew(*connection, "host:1", {});
  EXPECT_EQ(renewals_, 1);
}

}  // namespace
}  // namespace dp::ctl
