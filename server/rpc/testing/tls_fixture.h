#pragma once

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/security/certificate_authority.h"
#include "base/security/credential.h"
#include "base/security/token.h"
#include "base/testing/scratch_dir.h"
#include "gtest/gtest.h"
#include "server/access/authority.h"
#include "server/driver/testing/memory_journal.h"
#include "server/rpc/server.h"
#include "server/rpc/testing/await_parked.h"
#include "server/rpc/testing/cluster_client.h"

namespace dp::server {

// A coordinator that serves callers over TLS, in one process, and callers with every kind of
// credential. `As(...)` makes a client that calls with a credential:
//
//   As(CredentialsOf({Role::kUser, "ann"}))->Submit(...)
//
// The clients do not wait for a connection: a handshake that the coordinator rejects ends the call
// with UNAVAILABLE.
class TlsFixture : public ::testing::Test {
 protected:
  using Credentials = std::shared_ptr<grpc::ChannelCredentials>;
  using Role = security::Role;

  void SetUp() override {
    options_.lease = absl::Minutes(10);
    auto driver = Driver::Start(options_, journal_, *clock_, [](const absl::Status&) {});
    ASSERT_TRUE(driver.ok()) << driver.status();
    driver_ = *std::move(driver);
    logs_ =
        std::make_unique<LogThread>(LogStore(scratch_.path() / "logs"), [](const absl::Status&) {});
    parameters_ = std::make_unique<Parameters>(scratch_.path() / "parameters");
    auto server = Server::Start({"127.0.0.1", 0}, *driver_, *logs_,
                                {.connection_age = connection_age_,
                                 .calls = calls_,
                                 .tls = ServerFiles(),
                                 .parameters = parameters_.get(),
                                 .plain_text = plain_text_});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void TearDown() override {
    driver_->Stop();
    logs_->Stop();
    parameters_->tables.Stop();
    server_->Stop();
  }

  // A new certificate of the coordinator's own authority.
  Credentials CredentialsOf(const security::Identity& identity) {
    return CertifiedBy(authority_, identity, absl::Now());
  }
  Credentials Expired(const security::Identity& identity) {
    return CertifiedBy(authority_, identity, absl::Now() - 2 * Authority::kOfPeople);
  }
  // With a certificate that expires so soon.
  Credentials ExpiringIn(absl::Duration left, const security::Identity& identity) {
    return CertifiedBy(authority_, identity, absl::Now() - Authority::kOfPeople + left);
  }
  // The coordinator does not trust the authority, of the same name.
  Credentials OfAnotherAuthority(const security::Identity& identity) {
    return CertifiedBy(other_authority_, identity, absl::Now());
  }
  // Also revokes all earlier certificates of the identity, and ends its role.
  Credentials Revoked(const security::Identity& identity) {
    Credentials revoked = CredentialsOf(identity);
    Revoke(identity);
    return revoked;
  }
  // No certificate: the token of a rank goes with each call.
  Credentials WithToken(const security::RankClaims& claims) {
    return WithToken(authority_.tokens().Token(claims));
  }
  Credentials WithToken(const std::string& token) { return WithToken(token, Nobody()); }
  Credentials WithToken(const std::string& token, const Credentials& connection) {
    return grpc::CompositeChannelCredentials(
        connection, grpc::MetadataCredentialsFromPlugin(std::make_unique<TokenPlugin>(token)));
  }
  // TLS without certificate and token.
  Credentials Nobody() { return Showing({}); }
  // Any certificate and key.
  Credentials Showing(const grpc::experimental::IdentityKeyCertPair& certificate) {
    const bool shows = !certificate.certificate_chain.empty();
    const std::string trusted = authority_.certificates().certificate().ToPem();
    using Provider = grpc::experimental::StaticDataCertificateProvider;
    grpc::experimental::TlsChannelCredentialsOptions options;
    options.set_certificate_provider(
        shows ? std::make_shared<Provider>(trusted, std::vector{certificate})
              : std::make_shared<Provider>(trusted));
    options.watch_root_certs();
    if (shows) options.watch_identity_key_cert_pairs();
    return grpc::experimental::TlsCredentials(options);
  }

  std::unique_ptr<ClusterClient> As(const Credentials& credentials) {
    grpc::ChannelArguments arguments;
    // Two clients never share a connection, so neither calls with the other's certificate.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return std::make_unique<ClusterClient>(
        grpc::CreateCustomChannel(server_->address().ToString(), credentials, arguments),
        /*waits_for_ready=*/false);
  }
  // With a new certificate.
  std::unique_ptr<ClusterClient> As(const security::Identity& identity) {
    return As(CredentialsOf(identity));
  }
  void Grant(const std::string& name, Role role) { Apply(core::GrantRole{name, role}); }
  void Revoke(const security::Identity& identity) {
    Apply(core::RevokeAccess{identity.name, identity.role == Role::kWorker, absl::Now()});
  }

  // Replaces the server's certificate and key, under the server's feet. Returns the certificate in
  // PEM.
  std::string ReplaceServerCertificate(absl::Duration lifetime) {
    const security::KeyPair key = security::KeyPair::Make();
    const auto issued = authority_.certificates().Issue(
        key.SigningRequest(),
        {.identity = {Role::kCoordinator, "dp"}, .hosts = {"127.0.0.1"}, .lifetime = lifetime},
        absl::Now());
    security::Credential files = ServersCredential();
    files.chain = issued->ToPem();
    files.key = key.ToPem();
    EXPECT_TRUE(security::WriteCredential(server_dir_, files).ok());
    return issued->ToPem();
  }
  // Replaces the further authorities whose certificates callers may show.
  void ReplaceAuthorities(const std::string& others) {
    security::Credential files = ServersCredential();
    files.authorities = authority_.certificates().certificate().ToPem() + others;
    EXPECT_TRUE(security::WriteCredential(server_dir_, files).ok());
  }

  // Returns once so many calls are parked with the driver.
  void AwaitParked(size_t calls) { server::AwaitParked(*driver_, calls); }

  // A test's constructor may change these.
  const Clock* clock_ = &Clock::System();  // of the driver
  Driver::Options options_;
  ConnectionAge connection_age_;
  CallLimits calls_;
  bool plain_text_ = false;        // also serves callers in plain text
  bool own_certificate_ = true;    // as in TlsOptions; the certificate is the same in any case
  std::string other_authorities_;  // further ones whose certificates callers may show, in PEM

  const ScratchDir scratch_;
  const std::string server_dir_ = scratch_.path() / "server";
  const Authority authority_ = AnAuthority();
  const Authority other_authority_ = AnAuthority();
  MemoryJournal journal_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<LogThread> logs_;
  std::unique_ptr<Parameters> parameters_;
  std::unique_ptr<Server> server_;

 private:
  class TokenPlugin final : public grpc::MetadataCredentialsPlugin {
   public:
    explicit TokenPlugin(std::string token) : token_(std::move(token)) {}

    bool IsBlocking() const override { return false; }
    grpc::Status GetMetadata(grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
                             std::multimap<grpc::string, grpc::string>* metadata) override {
      metadata->emplace(security::kTokenMetadata, token_);
      return grpc::Status::OK;
    }

   private:
    const std::string token_;
  };

  static Authority AnAuthority() {
    return {security::CertificateAuthority::Make(absl::Now()), security::TokenKey::Make(),
            security::SealingKey::Make()};
  }
  Credentials CertifiedBy(const Authority& authority, const security::Identity& identity,
                          absl::Time at) {
    const security::KeyPair key = security::KeyPair::Make();
    const auto issued = authority.Issue(key.SigningRequest(), identity, at);
    EXPECT_TRUE(issued.ok()) << issued.status();
    return Showing({key.ToPem(), issued->chain});
  }
  security::Credential ServersCredential() const { return *security::ReadCredential(server_dir_); }
  // Writes the server's files.
  TlsOptions ServerFiles() {
    const security::KeyPair key = security::KeyPair::Make();
    const auto issued =
        authority_.IssueToCoordinator(key.SigningRequest(), {"127.0.0.1"}, absl::Now());
    const std::string own = authority_.certificates().certificate().ToPem();
    EXPECT_TRUE(security::WriteCredential(server_dir_, {.authorities = own + other_authorities_,
                                                        .chain = issued->chain,
                                                        .key = key.ToPem()})
                    .ok());
    return {.chain_file = server_dir_ + "/" + security::kChainFile,
            .key_file = server_dir_ + "/" + security::kKeyFile,
            .clients_file = server_dir_ + "/" + security::kAuthoritiesFile,
            .authority = &authority_,
            .own_certificate = own_certificate_};
  }
  // Returns once the machine has the command.
  void Apply(core::Action action) {
    std::promise<absl::Status> done;
    ASSERT_TRUE(
        driver_
            ->Submit(std::move(action), [&](const core::Outcome& outcome,
                                            const View&) { done.set_value(outcome.status); })
            .ok());
    ASSERT_TRUE(done.get_future().get().ok());
  }
};

}  // namespace dp::server
