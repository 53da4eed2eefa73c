#include "base/security/tls13.h"

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "base/check.h"
#include "base/security/certificate_authority.h"
#include "base/security/openssl.h"
#include "gtest/gtest.h"

// A program of its own: the setting is that of a whole process.

namespace dp::security {
namespace {

using ContextPtr = std::shared_ptr<SSL_CTX>;
using SslPtr = std::unique_ptr<SSL, Free<SSL_free>>;

// The version that both sides agree on, over memory; an empty text if they do not.
std::string Agreed(const ContextPtr& client_context, const ContextPtr& server_context) {
  const SslPtr client(SSL_new(client_context.get())), server(SSL_new(server_context.get()));
  BIO *client_end = nullptr, *server_end = nullptr;
  DP_CHECK(BIO_new_bio_pair(&client_end, 0, &server_end, 0) == 1);
  SSL_set_bio(client.get(), client_end, client_end);
  SSL_set_bio(server.get(), server_end, server_end);
  SSL_set_connect_state(client.get());
  SSL_set_accept_state(server.get());
  for (int round = 0; round < 10; ++round) {
    const int connected = SSL_do_handshake(client.get());
    const int accepted = SSL_do_handshake(server.get());
    if (connected == 1 && accepted == 1) return SSL_get_version(client.get());
  }
  ERR_clear_error();
  return "";
}

class Tls13Test : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(RequireTls13().ok()); }

  // Contexts as gRPC makes them, which allows 1.2.
  ContextPtr Client() const { return AllowingFrom12(TLS_client_method()); }
  ContextPtr Server() const { return WithCertificate(AllowingFrom12(TLS_server_method())); }
  // A program elsewhere, for which the setting does not hold and which knows versions until `last`.
  ContextPtr OtherClient(int last) const { return Elsewhere(Client(), last); }
  ContextPtr OtherServer(int last) const { return Elsewhere(Server(), last); }

 private:
  static ContextPtr AllowingFrom12(const SSL_METHOD* method) {
    const ContextPtr context(SSL_CTX_new(method), SSL_CTX_free);
    SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
    SSL_CTX_set_max_proto_version(context.get(), TLS1_3_VERSION);
    return context;
  }
  ContextPtr WithCertificate(const ContextPtr& context) const {
    const KeyPair key = KeyPair::Make();
    const auto certificate = authority_.Issue(key.SigningRequest(), grant_, absl::Now());
    DP_CHECK(SSL_CTX_use_certificate(context.get(), certificate->get()) == 1);
    DP_CHECK(SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1);
    return context;
  }
  static ContextPtr Elsewhere(const ContextPtr& context, int last) {
    SSL_CTX_clear_options(context.get(), SSL_OP_NO_TLSv1_2);
    SSL_CTX_set_max_proto_version(context.get(), last);
    return context;
  }

  const CertificateAuthority authority_ = CertificateAuthority::Make(absl::Now());
  const Grant grant_{.identity = {Role::kCoordinator, "dp"}, .lifetime = absl::Hours(1)};
};

TEST_F(Tls13Test, BothSidesSpeakTls13) {
  EXPECT_EQ(Agreed(Client(), Server()), "TLSv1.3");
  EXPECT_EQ(Agreed(OtherClient(TLS1_3_VERSION), Server()), "TLSv1.3");
  EXPECT_EQ(Agreed(Client(), OtherServer(TLS1_3_VERSION)), "TLSv1.3");
}

TEST_F(Tls13Test, AServerSendsNoTickets) {
  EXPECT_EQ(SSL_CTX_get_num_tickets(Server().get()), 0u);
  EXPECT_EQ(SSL_CTX_get_num_tickets(ContextPtr(SSL_CTX_new(TLS_method()), SSL_CTX_free).get()), 0u);
}

TEST_F(Tls13Test, AServerRejectsAClientThatOnlyKnowsTls12) {
  EXPECT_EQ(Agreed(OtherClient(TLS1_2_VERSION), Server()), "");
  EXPECT_EQ(Agreed(OtherClient(TLS1_2_VERSION), OtherServer(TLS1_3_VERSION)), "TLSv1.2");
}

TEST_F(Tls13Test, AClientRejectsAServerThatOnlyKnowsTls12) {
  EXPECT_EQ(Agreed(Client(), OtherServer(TLS1_2_VERSION)), "");
  EXPECT_EQ(Agreed(OtherClient(TLS1_3_VERSION), OtherServer(TLS1_2_VERSION)), "TLSv1.2");
}

}  // namespace
}  // namespace dp::security
