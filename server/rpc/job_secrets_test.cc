#include "server/rpc/job_secrets.h"

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/no_memory_limit.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/testing/tls_fixture.h"

namespace dp::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kValue[] = "hf_abcdefghijk";

class JobSecretsTest : public TlsFixture {
 protected:
  static v1::SubmitRequest ARequest(const std::string& request_id = "request 1") {
    v1::SubmitRequest request;
    request.set_request_id(request_id);
    *request.mutable_spec() = ClusterClient::AJob("job");
    request.mutable_spec()->add_secrets("HF_TOKEN");
    v1::Secret* secret = request.add_secrets();
    secret->set_name("HF_TOKEN");
    secret->set_value(kValue);
    return request;
  }
  Answered<v1::SubmitResponse> Submit(const v1::SubmitRequest& request) {
    auto client = As(kAnn);
    return client->Call(client->jobs(), &v1::Jobs::Stub::Submit, request);
  }
  // Its daemon is of this release, if it `takes_secrets`.
  void Register(ClusterClient& client, const std::string& name, bool takes_secrets = true) {
    v1::RegisterRequest request;
    request.set_name(name);
    request.set_host("host");
    request.set_address("127.0.0.1");
    request.set_incarnation(1);
    request.set_slots(2);
    request.set_takes_secrets(takes_secrets);
    (*request.mutable_labels())["takes-secrets"] = "so-it-says";
    const auto registered = client.Call(client.workers(), &v1::Workers::Stub::Register, request);
    ASSERT_TRUE(registered.ok()) << registered.status.error_message();
  }
  // The first rank of the worker, as this caller gets it.
  v1::AssignedRank RankSeenBy(ClusterClient& client) {
    v1::WatchAssignmentRequest request;
    request.set_worker_id(1);
    request.set_incarnation(1);
    const auto answer = client.Call(client.workers(), &v1::Workers::Stub::WatchAssignment, request);
    EXPECT_TRUE(answer.ok()) << answer.status.error_message();
    return answer->assignment().ranks().empty() ? v1::AssignedRank()
                                                : answer->assignment().ranks(0);
  }
  std::string WhyItWaits() {
    const auto answer = As(kAdmin)->GetJob(1);
    EXPECT_EQ(answer->job().state(), v1::JOB_STATE_PENDING);
    return absl::StrJoin(answer->job().pending_reasons(), "\n");
  }

  const security::Identity kAnn{Role::kUser, "ann"};
  const security::Identity kAdmin{Role::kAdmin, "admin"};
  const security::Identity kWorker{Role::kWorker, "w"};
};

TEST_F(JobSecretsTest, OnlyTheWorkerOfARankGetsTheValue) {
  const auto worker = As(kWorker);
  Register(*worker, "w");
  const auto submitted = Submit(ARequest());
  ASSERT_TRUE(submitted.ok()) << submitted.status.error_message();
  const v1::AssignedRank rank = RankSeenBy(*worker);
  ASSERT_EQ(rank.secrets_size(), 1) << rank.no_secrets();
  EXPECT_EQ(rank.secrets(0).name() + "=" + rank.secrets(0).value(),
            std::string("HF_TOKEN=") + kValue);
  EXPECT_EQ(rank.no_secrets(), "");
  EXPECT_THAT(submitted->job().spec().secrets(), ElementsAre("HF_TOKEN"));
  for (const security::Identity& who : {kAnn, kAdmin, security::Identity{Role::kViewer, "vic"}}) {
    const auto job = As(who)->GetJob(1);
    EXPECT_THAT(job->job().spec().secrets(), ElementsAre("HF_TOKEN"));
    EXPECT_THAT(job->SerializeAsString(), Not(HasSubstr(kValue)));
  }
}

TEST_F(JobSecretsTest, TheFirstRankOfTheJobHasThemForAll) {
  const auto worker = As(kWorker);
  Register(*worker, "w");
  v1::SubmitRequest two = ARequest();
  two.mutable_spec()->set_ranks(2);
  ASSERT_TRUE(Submit(two).ok());
  v1::WatchAssignmentRequest request;
  request.set_worker_id(1);
  request.set_incarnation(1);
  const auto answer = worker->Call(worker->workers(), &v1::Workers::Stub::WatchAssignment, request);
  ASSERT_EQ(answer->assignment().ranks_size(), 2);
  EXPECT_EQ(answer->assignment().ranks(0).secrets_size(), 1);
  EXPECT_EQ(answer->assignment().ranks(1).secrets_size(), 0);
}

TEST_F(JobSecretsTest, AnAdministratorWhoAsksForAnAssignmentGetsNoValue) {
  Register(*As(kWorker), "w");
  ASSERT_TRUE(Submit(ARequest()).ok());
  const v1::AssignedRank rank = RankSeenBy(*As(kAdmin));
  EXPECT_EQ(rank.job(), 1u);
  EXPECT_THAT(rank.secrets(), IsEmpty());
  EXPECT_THAT(rank.no_secrets(), HasSubstr("only to workers that call over TLS"));
}

TEST_F(JobSecretsTest, TheStateHasSealedValuesOnly) {
  ASSERT_TRUE(Submit(ARequest()).ok());
  std::promise<std::vector<core::SealedSecret>> secrets;
  ASSERT_TRUE(driver_
                  ->Ask([&](const absl::Status&, const View& view) {
                    secrets.set_value(view.coordinator.job(JobId(1))->secrets);
                  })
                  .ok());
  const auto sealed = secrets.get_future().get();
  ASSERT_EQ(sealed.size(), 1u);
  EXPECT_EQ(sealed[0].name, "HF_TOKEN");
  EXPECT_THAT(sealed[0].sealed, Not(HasSubstr(kValue)));
}

TEST_F(JobSecretsTest, ARepeatedRequestGivesTheSameJob) {
  const auto worker = As(kWorker);
  Register(*worker, "w");
  ASSERT_TRUE(Submit(ARequest()).ok());
  const auto again = Submit(ARequest());
  ASSERT_TRUE(again.ok()) << again.status.error_message();
  EXPECT_EQ(again->job().id(), 1u);
  EXPECT_EQ(RankSeenBy(*worker).secrets(0).value(), kValue);
}

TEST_F(JobSecretsTest, ARequestWhoseNamesAndValuesDifferIsRejectedWithoutTheValue) {
  v1::SubmitRequest request = ARequest();
  request.mutable_spec()->clear_secrets();
  const auto answer = Submit(request);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(answer.status.error_message(), HasSubstr("secret HF_TOKEN has a value, but"));
  EXPECT_THAT(answer.status.error_message(), Not(HasSubstr(kValue)));
  request = ARequest();
  request.clear_secrets();
  EXPECT_THAT(Submit(request).status.error_message(), HasSubstr("HF_TOKEN has no value"));
}

TEST_F(JobSecretsTest, AWorkerOfAnEarlierReleaseGetsNoRank) {
  Register(*As(kWorker), "w", /*takes_secrets=*/false);
  ASSERT_TRUE(Submit(ARequest()).ok());
  EXPECT_THAT(WhyItWaits(), HasSubstr("; worker w takes no secrets: upgrade its daemon, and let it "
                                      "join over TLS"));
  EXPECT_THAT(WhyItWaits(), Not(HasSubstr("takes-secrets")));
}

TEST_F(JobSecretsTest, AWorkerThatLacksTwoThingsIsNamedForBoth) {
  const auto worker = As(kWorker);
  v1::RegisterRequest registration;
  registration.set_name("w");
  registration.set_incarnation(1);
  registration.set_slots(1);
  (*registration.mutable_labels())[kNoMemoryLimit] = "";
  ASSERT_TRUE(worker->Call(worker->workers(), &v1::Workers::Stub::Register, registration).ok());
  v1::SubmitRequest request = ARequest();
  request.mutable_spec()->set_memory_mib_per_rank(64);
  ASSERT_TRUE(Submit(request).ok());
  EXPECT_THAT(WhyItWaits(), HasSubstr("; worker w cannot limit memory: set Delegate=yes"));
  EXPECT_THAT(WhyItWaits(), HasSubstr("; worker w takes no secrets: upgrade its daemon"));
}

TEST_F(JobSecretsTest, NobodyIsShownTheLabel) {
  Register(*As(kWorker), "w");
  auto client = As(kAnn);
  const auto workers = client->Call(client->workers(), &v1::Workers::Stub::List, {});
  ASSERT_EQ(workers->workers_size(), 1);
  EXPECT_THAT(workers->workers(0).labels(), IsEmpty());
}

TEST_F(JobSecretsTest, WhoAmISaysThatSecretsAreTaken) {
  auto client = As(kAnn);
  EXPECT_TRUE(client->Call(client->access(), &v1::Access::Stub::WhoAmI, {})->takes_secrets());
}

class PlainTextSecretsTest : public JobSecretsTest {
 protected:
  PlainTextSecretsTest() { plain_text_ = true; }
  std::unique_ptr<ClusterClient> InPlainText() {
    return std::make_unique<ClusterClient>(server_->address().ToString());
  }
};

TEST_F(PlainTextSecretsTest, SecretsInPlainTextAreRejected) {
  auto client = InPlainText();
  const auto answer = client->Call(client->jobs(), &v1::Jobs::Stub::Submit, ARequest());
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(answer.status.error_message(), HasSubstr("the call came in plain text"));
  EXPECT_FALSE(client->Call(client->access(), &v1::Access::Stub::WhoAmI, {})->takes_secrets());
}

TEST_F(PlainTextSecretsTest, AWorkerInPlainTextGetsNoRankAndNoValue) {
  auto plain = InPlainText();
  Register(*plain, "w");
  ASSERT_TRUE(Submit(ARequest()).ok());
  EXPECT_THAT(WhyItWaits(), HasSubstr("worker w takes no secrets"));
}

// Whoever calls in plain text may say they are any worker.
TEST_F(PlainTextSecretsTest, TheAssignmentOfAWorkerOverTlsShowsNoValueInPlainText) {
  Register(*As(kWorker), "w");
  ASSERT_TRUE(Submit(ARequest()).ok());
  auto plain = InPlainText();
  const v1::AssignedRank rank = RankSeenBy(*plain);
  EXPECT_EQ(rank.job(), 1u);
  EXPECT_THAT(rank.SerializeAsString(), Not(HasSubstr(kValue)));
}

// The parts without a server.
class OpenSecretsTest : public ::testing::Test {
 protected:
  core::Job AJob(const security::SealingKey& key) {
    v1::SubmitRequest request;
    request.set_request_id("request 1");
    for (const char* name : {"A", "B"}) {
      request.mutable_spec()->add_secrets(name);
      v1::Secret* secret = request.add_secrets();
      secret->set_name(name);
      secret->set_value(std::string("value of ") + name);
    }
    core::Job job;
    job.id = JobId(7);
    job.request_id = request.request_id();
    job.secrets = *SealSecrets(request, key, {.kind = Caller::Kind::kCertificate});
    return job;
  }
  v1::AssignedRank Open(const core::Job& job) {
    v1::AssignedRank rank;
    OpenSecrets(job, key_,
                {.kind = Caller::Kind::kCertificate, .identity = {security::Role::kWorker, "w"}},
                &rank);
    return rank;
  }

  const std::optional<security::SealingKey> key_ = security::SealingKey::Make();
};

TEST_F(OpenSecretsTest, AnotherKeyLeadsToTheBackup) {
  const v1::AssignedRank rank = Open(AJob(security::SealingKey::Make()));
  EXPECT_THAT(rank.secrets(), IsEmpty());
  EXPECT_EQ(rank.no_secrets(),
            "secret A of job 7 cannot be opened: another key has sealed the value; restore "
            "secret.key of the coordinator's DIR/identity from a backup, or submit the job again");
}

TEST_F(OpenSecretsTest, ASealedValueIsOfOneJobAndOneName) {
  const core::Job job = AJob(*key_);
  EXPECT_EQ(Open(job).secrets_size(), 2);
  core::Job swapped = job;
  std::swap(swapped.secrets[0].sealed, swapped.secrets[1].sealed);
  EXPECT_THAT(Open(swapped).no_secrets(), HasSubstr("changed, cut or moved; submit the job again"));
  core::Job moved = job;
  moved.request_id = "request 2";
  EXPECT_THAT(Open(moved).no_secrets(), HasSubstr("changed, cut or moved"));
  EXPECT_THAT(Open(moved).secrets(), IsEmpty());
}

}  // namespace
}  // namespace dp::server
