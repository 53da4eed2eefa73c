#include "server/program/coordinator_process.h"

#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "base/security/certificate_authority.h"
#include "base/security/credential.h"
#include "base/security/local_credential.h"
#include "base/testing/scratch_dir.h"
#include "gmock/gmock.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "gtest/gtest.h"
#include "server/rpc/testing/cluster_client.h"

// Tests the program as it is installed: what survives kill -9, and the errors of a failed start.

namespace dp::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Calls as the administrator whose credential is in the data directory.
std::unique_ptr<ClusterClient> ClientOf(const CoordinatorProcess& process,
                                        const std::filesystem::path& data) {
  const auto admin = security::ReadCredential(data / "identity" / "admin");
  EXPECT_TRUE(admin.ok()) << admin.status();
  namespace tls = grpc::experimental;
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::make_shared<tls::StaticDataCertificateProvider>(
      admin->authorities, std::vector<tls::IdentityKeyCertPair>{{admin->key, admin->chain}}));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  return std::make_unique<ClusterClient>(process.address(), tls::TlsCredentials(options));
}

class CoordinatorProcessTest : public ::testing::Test {
 protected:
  void Start() {
    process_ = std::make_unique<CoordinatorProcess>(scratch_.path() / "data");
    ASSERT_FALSE(process_->address().empty());
    client_ = ClientOf(*process_, scratch_.path() / "data");
  }
  void KillAndRestart() {
    process_->Kill(SIGKILL);
    Start();
  }
  // A sealed world of two ranks with a key in its store and a line in its log.
  void RunAJob() {
    const auto registered = client_->Register("w", 2);
    ASSERT_TRUE(registered.ok()) << registered.status.error_message();
    worker_ = registered->worker_id();
    job_ = client_->Submit(ClusterClient::AJob("job", 2), "request")->job().id();
    ASSERT_TRUE(client_->Report(worker_, job_, 0, v1::RANK_STATE_STARTED).ok());
    ASSERT_TRUE(client_->Join(job_, 0).ok());
    ASSERT_TRUE(client_->Join(job_, 1).ok());
    ASSERT_TRUE(client_->Set(job_, "key", "value", 1).ok());
    ASSERT_TRUE(client_->AppendLog(worker_, job_, 0, "line\n").ok());
  }
  // Runs the program with arguments that make it exit at once.
  CoordinatorProcess::Ended RunToEnd(std::vector<std::string> arguments) {
    CoordinatorProcess process(std::move(arguments));
    EXPECT_TRUE(process.address().empty());
    return process.Wait();
  }

  const ScratchDir scratch_;
  std::unique_ptr<CoordinatorProcess> process_;
  std::unique_ptr<ClusterClient> client_;
  uint64_t worker_ = 0;
  uint64_t job_ = 0;
};

TEST_F(CoordinatorProcessTest, AStartThatMakesLostKeysAnewSaysWhatNoLongerWorks) {
  Start();
  EXPECT_THAT(process_->Kill(SIGTERM).error,
              AllOf(Not(HasSubstr("authority_made")), Not(HasSubstr("secret_key_made"))));
  std::filesystem::remove(scratch_.path() / "data/identity/secret.key");
  Start();
  EXPECT_THAT(process_->Kill(SIGTERM).error, HasSubstr("event=secret_key_made"));
  std::filesystem::remove_all(scratch_.path() / "data/identity");
  Start();
  EXPECT_THAT(process_->Kill(SIGTERM).error,
              AllOf(HasSubstr("event=authority_made"), HasSubstr("certificates, logins")));
}

TEST_F(CoordinatorProcessTest, ALinkToTheCredentialLastsAsLongAsTheProcess) {
  Start();
  const auto found = security::FindLocalCredential(process_->address());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, scratch_.path() / "data/identity/admin");
  const std::string address = process_->address();
  EXPECT_EQ(process_->Kill(SIGTERM).exit_code, 0);
  EXPECT_FALSE(std::filesystem::is_symlink(security::LocalCredentialLinks() + "/" + address));
}

TEST_F(CoordinatorProcessTest, WhatWasAcknowledgedSurvivesKill9) {
  Start();
  RunAJob();
  const auto before = client_->GetJob(job_);
  KillAndRestart();
  const auto after = client_->GetJob(job_);
  EXPECT_GT(after->header().epoch(), before->header().epoch());
  EXPECT_GT(after->header().revision(), before->header().revision());
  EXPECT_EQ(after->job().DebugString(), before->job().DebugString());
  EXPECT_EQ(after->job().state(), v1::JOB_STATE_RUNNING);
}

TEST_F(CoordinatorProcessTest, WhatItWritesIsItsOwnersToReadAlone) {
  namespace fs = std::filesystem;
  Start();
  RunAJob();
  constexpr fs::perms kOthers = fs::perms::group_all | fs::perms::others_all;
  const fs::path data = scratch_.path() / "data";
  EXPECT_EQ(fs::status(data).permissions() & kOthers, fs::perms::none);
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(data)) {
    EXPECT_EQ(entry.status().permissions() & kOthers, fs::perms::none) << entry.path();
    files += entry.is_regular_file() ? 1 : 0;
  }
  EXPECT_GE(files, 3);  // the journal, the lock and a log
}

TEST_F(CoordinatorProcessTest, APortThatDoesNotExistIsRefusedByOptionAndValue) {
  const auto ended = RunToEnd({"--listen", "127.0.0.1:72606", "--data-dir", scratch_.path()});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.error, HasSubstr("--listen: address is \"127.0.0.1:72606\""));
}

TEST_F(CoordinatorProcessTest, AJobGoesOnWhereItWasAfterKill9) {
  Start();
  RunAJob();
  KillAndRestart();
  EXPECT_EQ(client_->Register("w", 2)->worker_id(), worker_);
  EXPECT_EQ(client_->Join(job_, 1)->world().state(), v1::WORLD_STATE_SEALED);
  EXPECT_EQ(client_->Await(job_, "key", absl::ZeroDuration())->results(0).value(), "value");
  EXPECT_EQ(client_->ReadLogs(job_, absl::ZeroDuration())->chunks(0).data(), "line\n");
  EXPECT_EQ(client_->AppendLog(worker_, job_, 0, "line\nmore\n")->acknowledged(0).offset(), 10u);
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(client_->Report(worker_, job_, rank, v1::RANK_STATE_EXITED).ok());
    ASSERT_TRUE(client_->Report(worker_, job_, rank, v1::RANK_STATE_RELEASED).ok());
  }
  EXPECT_EQ(client_->GetJob(job_)->job().state(), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(CoordinatorProcessTest, EveryStartIsAnEpoch) {
  Start();
  uint64_t last = 0;
  for (int start = 0; start < 3; ++start) {
    const auto all = client_->Call(client_->jobs(), &v1::Jobs::Stub::List, v1::ListJobsRequest());
    EXPECT_GT(all->header().epoch(), last);
    last = all->header().epoch();
    KillAndRestart();
  }
}

// RLIMIT_FSIZE makes every write and every growth of a file fail.
TEST_F(CoordinatorProcessTest, ADiskThatTakesNoMoreEndsItAndWhatWasAcknowledgedIsThere) {
  Start();
  RunAJob();
  const rlimit none{1, 1};
  ASSERT_EQ(prlimit(process_->pid(), RLIMIT_FSIZE, &none, nullptr), 0);
  const grpc::Status told = client_->Set(job_, "late", "value", 2).status;
  EXPECT_EQ(told.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(told.error_message(), HasSubstr("the coordinator is stopping: its journal failed: "));
  EXPECT_THAT(told.error_message(), HasSubstr("whether the command took effect is not known"));
  const auto ended = process_->Wait();
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.error, HasSubstr("event=journal_failed"));
  EXPECT_THAT(ended.error, HasSubstr("journal.sqlite: disk I/O error (File too large)"));
  Start();
  EXPECT_EQ(client_->Await(job_, "key", absl::ZeroDuration())->results(0).value(), "value");
  EXPECT_FALSE(client_->Await(job_, "late", absl::ZeroDuration()).ok());
}

TEST_F(CoordinatorProcessTest, SigtermEndsItCleanly) {
  Start();
  EXPECT_EQ(process_->Kill(SIGTERM).exit_code, 0);
}

TEST_F(CoordinatorProcessTest, ASilentWorkerIsLostAndItsJobIsRestarted) {
  process_ = std::make_unique<CoordinatorProcess>(std::vector<std::string>{
      "--listen", "127.0.0.1:0", "--data-dir", scratch_.path().string(), "--lease", "1s"});
  client_ = ClientOf(*process_, scratch_.path());
  RunAJob();
  v1::WatchJobRequest request;
  request.set_job(job_);
  request.mutable_timeout()->set_seconds(20);
  while (request.since() == 0 || client_->GetJob(job_)->job().restarts() == 0) {
    const auto watched = client_->Call(client_->jobs(), &v1::Jobs::Stub::Watch, request);
    ASSERT_TRUE(watched.ok()) << watched.status.error_message();
    ASSERT_NE(watched->job().version(), request.since()) << watched->job().DebugString();
    request.set_since(watched->job().version());
  }
  const auto waiting = client_->GetJob(job_);
  EXPECT_EQ(waiting->job().state(), v1::JOB_STATE_PENDING);
  EXPECT_EQ(waiting->job().past_failures(0).failure_class(), v1::FAILURE_CLASS_INFRA);
}

TEST_F(CoordinatorProcessTest, ADirectoryInUseIsRefused) {
  Start();
  const auto ended =
      RunToEnd({"--listen", "127.0.0.1:0", "--data-dir", (scratch_.path() / "data").string()});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.error, HasSubstr("is in use by process"));
}

TEST_F(CoordinatorProcessTest, ATakenPortIsRefusedByName) {
  Start();
  const auto ended = RunToEnd(
      {"--listen", process_->address(), "--data-dir", (scratch_.path() / "other").string()});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.error, HasSubstr("cannot listen on " + process_->address()));
}

// Exit code 1 makes a service manager try again: the network may come up later.
TEST_F(CoordinatorProcessTest, AnAddressThatThisHostDoesNotHaveYetIsNoBadUsageAndLeavesTheJournal) {
  const std::filesystem::path data = scratch_.path() / "data";
  const std::vector<std::string> others[] = {
      {"--listen", "192.0.2.1:0"},
      {"--tcpstore-listen", "192.0.2.1:0", "--listen", "127.0.0.1:0"},
  };
  for (std::vector<std::string> arguments : others) {
    const std::string flag = arguments[0];
    arguments.insert(arguments.end(), {"--insecure", "--data-dir", data.string()});
    const auto ended = RunToEnd(arguments);
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_THAT(ended.error, HasSubstr("cannot listen on 192.0.2.1:0: this host has no such"));
    EXPECT_THAT(ended.error, HasSubstr(flag));
  }
  EXPECT_FALSE(std::filesystem::exists(data));
}

TEST_F(CoordinatorProcessTest, ANameThatDoesNotResolveYetIsNoBadUsage) {
  // The resolver rejects this name without asking a name server.
  const auto ended = RunToEnd({"--listen", "127.0.0.1:0", "--tcpstore-listen", "no..host:0",
                               "--insecure", "--data-dir", (scratch_.path() / "data").string()});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.error, HasSubstr("cannot listen on no..host:0"));
  EXPECT_THAT(ended.error, HasSubstr("--tcpstore-listen"));
}

TEST_F(CoordinatorProcessTest, ALostJournalIsRefusedAndTheLogsStay) {
  Start();
  RunAJob();
  process_->Kill(SIGKILL);
  const std::filesystem::path data = scratch_.path() / "data";
  const auto wal_bytes = std::filesystem::file_size(data / "journal.sqlite-wal");
  std::filesystem::resize_file(data / "journal.sqlite", 0);
  const std::vector<std::string> start = {"--listen", "127.0.0.1:0", "--data-dir", data.string()};
  auto ended = RunToEnd(start);
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.error, HasSubstr("journal.sqlite is empty, but journal.sqlite-wal and "
                                     "journal.sqlite-mark and logs of 1 job are there"));
  EXPECT_EQ(std::filesystem::file_size(data / "journal.sqlite-wal"), wal_bytes);
  std::filesystem::remove(data / "journal.sqlite");
  std::filesystem::remove(data / "journal.sqlite-wal");
  ended = RunToEnd(start);
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.error, HasSubstr("restore the directory from a backup"));
  EXPECT_FALSE(std::filesystem::is_empty(data / "logs" / std::to_string(job_)));
}

TEST_F(CoordinatorProcessTest, AJournalWithoutItsWalIsRefusedUntilTheLossIsAccepted) {
  Start();
  RunAJob();
  process_->Kill(SIGKILL);
  const std::filesystem::path data = scratch_.path() / "data";
  std::filesystem::remove(data / "journal.sqlite-wal");
  std::vector<std::string> start = {"--listen", "127.0.0.1:0", "--data-dir", data.string()};
  const auto ended = RunToEnd(start);
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.error, HasSubstr("acknowledged commands are missing (1 to "));
  EXPECT_THAT(ended.error, HasSubstr("journal.sqlite-wal is missing; nothing was changed"));
  start.push_back("--accept-data-loss");
  process_ = std::make_unique<CoordinatorProcess>(start);
  client_ = ClientOf(*process_, data);
  EXPECT_EQ(client_->GetJob(job_).status.error_code(), grpc::StatusCode::NOT_FOUND);
  // The next job gets the number of the lost job, but not its logs.
  EXPECT_TRUE(std::filesystem::exists(data / "lost-logs" / std::to_string(job_)));
  RunAJob();
  KillAndRestart();
  EXPECT_EQ(client_->ReadLogs(job_, absl::ZeroDuration())->chunks(0).data(), "line\n");
}

TEST_F(CoordinatorProcessTest, AJournalThatIsNoneIsRefused) {
  std::ofstream(scratch_.path() / "journal.sqlite") << std::string(5000, 'x');
  const auto ended = RunToEnd({"--listen", "127.0.0.1:0", "--data-dir", scratch_.path().string()});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.error, HasSubstr("cannot be trusted"));
}

TEST_F(CoordinatorProcessTest, PyTorchsStoresBeyondThisMachineNeedTheWord) {
  const auto ended = RunToEnd({"--listen", "127.0.0.1:0", "--tcpstore-listen", "0.0.0.0:0",
                               "--data-dir", (scratch_.path() / "data").string()});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.error, HasSubstr("--tcpstore-insecure"));
}

TEST_F(CoordinatorProcessTest, PlainTextIsServedOnlyWithTheWord) {
  const auto call = [](const std::string& address) {
    ClusterClient client(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()),
                         /*waits_for_ready=*/false);
    return client.Call(client.jobs(), &v1::Jobs::Stub::List, v1::ListJobsRequest()).ok();
  };
  Start();
  EXPECT_FALSE(call(process_->address()));
  const CoordinatorProcess insecure({"--listen", "127.0.0.1:0", "--data-dir",
                                     (scratch_.path() / "other").string(), "--insecure"});
  EXPECT_TRUE(call(insecure.address()));
}

TEST_F(CoordinatorProcessTest, BadUsageIsExitCode2AndTheProgramNamesItself) {
  const auto ended = RunToEnd({});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.error, StartsWith("dp-coordinator: --data-dir is required"));
  EXPECT_THAT(RunToEnd({"--foo"}).error, HasSubstr("--foo"));
  const auto label = RunToEnd({"--data-dir", "x", "--rack-label", "a b"});
  EXPECT_EQ(label.exit_code, 2);
  EXPECT_THAT(label.error, HasSubstr("--rack-label is \"a b\""));
  EXPECT_EQ(RunToEnd({"--data-dir", "x", "--lease", "soon"}).exit_code, 2);
  EXPECT_EQ(RunToEnd({"--data-dir", "x", "--listen", "here"}).exit_code, 2);
}

TEST_F(CoordinatorProcessTest, ThePortFileHoldsThePort) {
  const std::string file = (scratch_.path() / "port").string();
  const CoordinatorProcess process(std::vector<std::string>{
      "--listen", "127.0.0.1:0", "--data-dir", scratch_.path().string(), "--port-file", file});
  std::string port;
  std::ifstream(file) >> port;
  EXPECT_EQ("127.0.0.1:" + port, process.address());
}

TEST(FirstStartTest, ItPrintsHowOthersComeIn) {
  const ScratchDir scratch;
  CoordinatorProcess process(scratch.path() / "data");
  ASSERT_FALSE(process.address().empty());
  const std::string at = "--coordinator " + process.address();
  EXPECT_THAT(process.NextLine(),
              StartsWith("within an hour, join a worker with:  dp-worker " + at + " --join dpj1."));
  EXPECT_THAT(process.NextLine(), HasSubstr("dpctl " + at + " login <<< dpj1."));
}

// No token leads to a certificate that the cluster's authority has not signed.
TEST(FirstStartTest, WithACertificateFromElsewhereItPrintsNoTokens) {
  const ScratchDir scratch;
  const std::string chain = scratch.path() / "tls.crt", key = scratch.path() / "tls.key";
  const security::KeyPair pair = security::KeyPair::Make();
  const auto issued = security::CertificateAuthority::Make(absl::Now())
                          .Issue(pair.SigningRequest(),
                                 {.identity = {security::Role::kCoordinator, "c"},
                                  .hosts = {"127.0.0.1"},
                                  .lifetime = absl::Hours(1)},
                                 absl::Now());
  ASSERT_TRUE(issued.ok());
  std::ofstream(chain) << issued->ToPem();
  std::ofstream(key) << pair.ToPem();
  std::filesystem::permissions(key, std::filesystem::perms(0600));
  CoordinatorProcess process({"--listen", "127.0.0.1:0", "--data-dir", scratch.path() / "data",
                              "--tls-cert", chain, "--tls-key", key});
  ASSERT_FALSE(process.address().empty());
  const std::string how = "--coordinator " + process.address() + " --credentials DIR";
  EXPECT_THAT(process.NextLine(), StartsWith("its certificate is from elsewhere (--tls-cert)"));
  EXPECT_THAT(process.NextLine(), HasSubstr("dp-worker " + how));
  EXPECT_THAT(process.NextLine(), HasSubstr("dpctl " + how));
}

}  // namespace
}  // namespace dp::server
