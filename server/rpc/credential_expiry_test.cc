// No call and no stream lasts longer than its caller's certificate. Connections end in time for a
// renewed certificate to take the place of the former one.

#include <future>
#include <memory>
#include <string>

#include "base/testing/settable_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/convert/convert_call.h"
#include "server/rpc/testing/tls_fixture.h"

namespace dp::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kLeft = absl::Seconds(45);  // below the 60 s of the longest wait

class CredentialExpiryTest : public TlsFixture {
 protected:
  CredentialExpiryTest() { clock_ = &time_; }

  std::unique_ptr<ClusterClient> AnnWithLittleTime() {
    return As(ExpiringIn(kLeft, {Role::kUser, "ann"}));
  }
  // Lets time pass for the driver, which looks at it with its next call.
  void Pass(absl::Duration time, size_t calls_left) {
    time_.Advance(time);
    AwaitParked(calls_left);
  }
  static std::future<grpc::Status> WatchEvents(ClusterClient& caller) {
    return std::async(std::launch::async, [&caller] {
      v1::WatchEventsRequest request;
      request.set_since(1'000'000);
      request.mutable_timeout()->set_seconds(60);
      return caller.Call(caller.jobs(), &v1::Jobs::Stub::WatchEvents, request, kLong).status;
    });
  }

  SettableClock time_;
};

TEST_F(CredentialExpiryTest, AStreamAndItsWaitsEndWithTheCertificate) {
  ASSERT_TRUE(As({Role::kWorker, "w"})->Register("w", 1).ok());
  const auto ann = AnnWithLittleTime();
  v1::ParkRequest request;
  v1::ParkedWait& wait = *request.add_waits();
  wait.set_id(1);
  wait.mutable_await()->set_job(ann->Submit(ClusterClient::AJob("job"), "request")->job().id());
  wait.mutable_await()->set_generation(1);
  wait.mutable_await()->add_reads()->mutable_get()->set_key("key");
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kLong));
  const auto stream = ann->store().Park(&context);
  stream->Write(request);
  AwaitParked(2);
  Pass(kLeft - absl::Seconds(20), /*calls_left=*/2);
  Pass(absl::Seconds(20), /*calls_left=*/0);
  const grpc::Status end = stream->Finish();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(end.error_message(), AllOf(HasSubstr("the certificate of user ann expired at"),
                                         HasSubstr("log in again with a token of 'dpctl token'")));
}

TEST_F(CredentialExpiryTest, ACallThatWaitsEndsWithTheCertificate) {
  const auto ann = AnnWithLittleTime();
  auto watch = WatchEvents(*ann);
  AwaitParked(1);
  Pass(kLeft, /*calls_left=*/0);
  EXPECT_EQ(watch.get().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  const auto root = As({Role::kAdmin, "root"});
  const auto listed = root->Call(root->access(), &v1::Access::Stub::ListRefusals, {});
  ASSERT_EQ(listed->refusals_size(), 1);
  EXPECT_EQ(listed->refusals(0).rpc(), "Jobs.WatchEvents");
}

TEST_F(CredentialExpiryTest, ACallThatWaitsForLessHasItsAnswer) {
  const auto ann = As({Role::kUser, "ann"});
  auto watch = WatchEvents(*ann);
  AwaitParked(1);
  Pass(absl::Seconds(60), /*calls_left=*/0);
  EXPECT_TRUE(watch.get().ok());
}

// A channel that reads its certificate from files, as dp's clients do.
class RenewedCertificateTest : public TlsFixture {
 protected:
  RenewedCertificateTest() { connection_age_.max = absl::Milliseconds(200); }

  // A certificate of a worker that was made so long ago; returns when it expires.
  absl::Time Write(absl::Duration ago) {
    const auto issued = authority_.Issue(key_.SigningRequest(), kWorker, absl::Now() - ago);
    const security::Credential credential = {
        .authorities = issued->authorities, .chain = issued->chain, .key = key_.ToPem()};
    EXPECT_TRUE(security::WriteCredential(dir_, credential).ok());
    return security::Certificate::FromPem(issued->chain)->not_after();
  }
  std::unique_ptr<ClusterClient> Client() {
    constexpr unsigned kReadAgainSeconds = 1;
    grpc::experimental::TlsChannelCredentialsOptions options;
    options.set_certificate_provider(
        std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
            dir_ + "/" + security::kKeyFile, dir_ + "/" + security::kChainFile,
            dir_ + "/" + security::kAuthoritiesFile, kReadAgainSeconds));
    options.watch_root_certs();
    options.watch_identity_key_cert_pairs();
    return As(grpc::experimental::TlsCredentials(options));
  }
  static absl::Time ExpiryOf(ClusterClient& client) {
    const auto answer = client.Call(client.access(), &v1::Access::Stub::WhoAmI, {});
    return answer.ok() ? FromProto(answer->expires_at()) : absl::InfinitePast();
  }
  // Asks on the same channel until the server has seen that certificate.
  static bool AwaitExpiry(ClusterClient& client, absl::Time expiry) {
    const absl::Time deadline = absl::Now() + kLong;
    while (ExpiryOf(client) != expiry && absl::Now() < deadline) continue;
    return ExpiryOf(client) == expiry || ExpiryOf(client) == expiry;  // a call may lose its race
  }

  const security::Identity kWorker{Role::kWorker, "w"};
  const security::KeyPair key_ = security::KeyPair::Make();
  const std::string dir_ = scratch_.path() / "worker";
};

TEST_F(RenewedCertificateTest, ItCountsOnAnOpenChannelAndNoCallEnds) {
  const absl::Time first = Write(/*ago=*/absl::Hours(84));
  const auto worker = Client();
  const v1::RegisterResponse registered = worker->Register("w", 1).response;
  ASSERT_TRUE(AwaitExpiry(*worker, first));
  auto watch = std::async(std::launch::async, [&] {
    v1::WatchAssignmentRequest request;
    request.set_worker_id(registered.worker_id());
    request.set_incarnation(1);
    request.set_since(registered.header().revision());
    request.mutable_timeout()->set_seconds(60);
    return worker->Call(worker->workers(), &v1::Workers::Stub::WatchAssignment, request, kLong);
  });
  AwaitParked(1);
  EXPECT_TRUE(AwaitExpiry(*worker, Write(/*ago=*/absl::ZeroDuration())));
  AwaitParked(1);
  ASSERT_TRUE(As({Role::kUser, "ann"})->Submit(ClusterClient::AJob("job"), "request").ok());
  EXPECT_EQ(watch.get()->assignment().ranks_size(), 1);
}

class StreamAgeTest : public TlsFixture {
 protected:
  StreamAgeTest() { connection_age_ = {absl::Milliseconds(200), absl::Milliseconds(1)}; }
};

TEST_F(StreamAgeTest, AStreamEndsSoThatItsClientOpensAnotherOnANewConnection) {
  const auto worker = As({Role::kWorker, "w"});
  for (int i = 0; i < 2; ++i) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kLong));
    context.set_wait_for_ready(true);
    const auto stream = worker->store().Park(&context);
    v1::ParkResponse none;
    EXPECT_FALSE(stream->Read(&none));
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  }
}

}  // namespace
}  // namespace dp::server
