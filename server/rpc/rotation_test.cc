// The server's certificate and the authorities of its callers are replaced while a hundred
// connections have calls open. None of these ends, and new connections see the new files.

#include <grpc/grpc_security_constants.h>

#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "server/rpc/testing/tls_fixture.h"

namespace dp::server {
namespace {

constexpr int kConnections = 100;

// A call that waits for news of a job or for events, on a connection of its own.
struct OpenCall {
  std::unique_ptr<ClusterClient> client;
  grpc::ClientContext context;
  v1::WatchJobRequest of_job;
  v1::WatchJobResponse job;
  v1::WatchEventsRequest of_events;
  v1::WatchEventsResponse events;
  std::promise<void> end;
};

class RotationTest : public TlsFixture {
 protected:
  void SetUp() override {
    TlsFixture::SetUp();
    const auto job = As(kAnn)->Submit(ClusterClient::AJob("job"), "request")->job();
    job_ = job.id();
    v1::WatchEventsRequest so_far;
    const auto ann = As(kAnn);
    events_seen_ = ann->Call(ann->jobs(), &v1::Jobs::Stub::WatchEvents, so_far)->next_since();
    const Credentials credentials = CredentialsOf(kAnn);
    for (int i = 0; i < kConnections; ++i) Open(credentials, job.version());
    AwaitParked(kConnections);
  }

  // Ends every call by news of the job, and returns how many ended well. Calls whose time was up
  // before have ended well, too.
  int EndAll() {
    v1::CancelRequest cancel;
    cancel.set_job(job_);
    const auto ann = As(kAnn);
    EXPECT_TRUE(ann->Call(ann->jobs(), &v1::Jobs::Stub::Cancel, cancel).ok());
    for (OpenCall& each : calls_) each.end.get_future().wait();
    return well_;
  }

  // The server's certificate as a new connection sees it, in PEM; the error of a call that fails.
  std::string SeenBy(const Credentials& credentials) {
    const auto client = As(credentials);
    grpc::ClientContext context;
    v1::WhoAmIResponse response;
    const grpc::Status status = client->access().WhoAmI(&context, {}, &response);
    if (!status.ok()) return status.error_message();
    const auto pem = context.auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
    return pem.empty() ? "" : std::string(pem[0].data(), pem[0].size());
  }
  // Asks with new connections until `good` says yes of the answer. Each is a whole handshake.
  template <typename Predicate>
  std::string AwaitSeen(const Credentials& credentials, Predicate good) {
    std::string seen;
    const absl::Time deadline = absl::Now() + absl::Minutes(2);
    while (!good(seen) && absl::Now() < deadline) seen = SeenBy(credentials);
    return seen;
  }

  const security::Identity kAnn{Role::kUser, "ann"};

 private:
  void Open(const Credentials& credentials, uint64_t version) {
    OpenCall& call = calls_.emplace_back();
    call.client = As(credentials);
    const auto ended = [this, &call](const grpc::Status& status) {
      if (status.ok()) ++well_;
      call.end.set_value();
    };
    auto* const jobs = call.client->jobs().async();
    if (calls_.size() % 2 == 0) {
      call.of_job.set_job(job_);
      call.of_job.set_since(version);
      call.of_job.mutable_timeout()->set_seconds(60);
      jobs->Watch(&call.context, &call.of_job, &call.job, ended);
    } else {
      call.of_events.set_since(events_seen_);
      call.of_events.mutable_timeout()->set_seconds(60);
      jobs->WatchEvents(&call.context, &call.of_events, &call.events, ended);
    }
  }

  uint64_t job_ = 0;
  uint64_t events_seen_ = 0;
  std::deque<OpenCall> calls_;
  std::atomic<int> well_ = 0;
};

// A certificate that lasts for minutes, with another key, takes the place of the first.
TEST_F(RotationTest, ANewCertificateOfTheServerDropsNoCall) {
  const std::string before = SeenBy(CredentialsOf(kAnn));
  const std::string now = ReplaceServerCertificate(absl::Minutes(10));
  ASSERT_NE(before, now);
  EXPECT_EQ(AwaitSeen(CredentialsOf(kAnn), [&](const std::string& seen) { return seen == now; }),
            now);
  EXPECT_EQ(EndAll(), kConnections);
}

TEST_F(RotationTest, OtherAuthoritiesOfCallersDropNoCall) {
  const Credentials other = OfAnotherAuthority(kAnn);
  const auto in = [](const std::string& seen) { return absl::StrContains(seen, "CERTIFICATE"); };
  const auto out = [&in](const std::string& seen) { return !seen.empty() && !in(seen); };
  EXPECT_FALSE(in(SeenBy(other)));
  ReplaceAuthorities(other_authority_.certificates().certificate().ToPem());
  EXPECT_TRUE(in(AwaitSeen(other, in)));
  ReplaceAuthorities("");
  EXPECT_TRUE(out(AwaitSeen(other, out)));
  EXPECT_TRUE(in(SeenBy(CredentialsOf(kAnn))));
  EXPECT_EQ(EndAll(), kConnections);
}

}  // namespace
}  // namespace dp::server
