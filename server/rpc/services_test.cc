#include <future>
#include <string>

#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "proto/convert/time.h"
#include "server/rpc/testing/services_fixture.h"

// Tests every service through a real channel: what the wire adds to driver_test and log_store_test.

namespace dp::server {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ServicesTest : public ServicesFixture {};

TEST_F(ServicesTest, AStartingJobSaysWhichRanksHaveNotJoined) {
  const uint64_t job = PlacedJob(2);
  ASSERT_TRUE(client_->Join(job, 0).ok());
  const v1::Job described = client_->GetJob(job)->job();
  EXPECT_EQ(described.state(), v1::JOB_STATE_STARTING);
  ASSERT_EQ(described.pending_reasons_size(), 1);
  EXPECT_THAT(described.pending_reasons(0),
              ContainsRegex("^1 of 2 ranks have joined; missing: rank 1 on w .assigned.; "
                            "placed [0-9]+s ago$"));
}

TEST_F(ServicesTest, TheLastLinesOfARankThatDiedWithItsWorkerComeFromTheLogs) {
  const uint64_t job = PlacedJob();
  ASSERT_TRUE(client_->AppendLog(worker_, job, 0, "epoch 1\nepoch 2\n").ok());
  std::promise<void> lost;
  ASSERT_TRUE(driver_
                  ->Submit(core::LoseWorker{WorkerId(worker_), Incarnation(1), "silent"},
                           [&](const core::Outcome&, const View&) { lost.set_value(); })
                  .ok());
  lost.get_future().get();
  EXPECT_THAT(client_->GetJob(job)->job().past_failures(0).last_lines(),
              ElementsAre("epoch 1", "epoch 2"));
  EXPECT_THAT(WatchJob(job, 0, 30)->job().past_failures(0).last_lines(),
              ElementsAre("epoch 1", "epoch 2"));
  // A later end of the job, here by a user, leaves earlier failures as they were.
  v1::CancelRequest cancel;
  cancel.set_job(job);
  ASSERT_TRUE(client_->Call(client_->jobs(), &v1::Jobs::Stub::Cancel, cancel).ok());
  EXPECT_THAT(client_->GetJob(job)->job().past_failures(0).last_lines(),
              ElementsAre("epoch 1", "epoch 2"));
}

TEST_F(ServicesTest, ASubmittedJobComesBackWithItsDefaultsAndAHeader) {
  const auto submitted = client_->Submit(ClusterClient::AJob("mnist", 2), "r");
  ASSERT_TRUE(submitted.ok()) << submitted.status.error_message();
  EXPECT_GT(submitted->header().epoch(), 0u);
  EXPECT_GT(submitted->header().revision(), 0u);
  EXPECT_EQ(submitted->job().spec().name(), "mnist");
  EXPECT_EQ(submitted->job().spec().threads_per_rank(), 1);
  EXPECT_EQ(submitted->job().state(), v1::JOB_STATE_PENDING);
  EXPECT_FALSE(submitted->job().pending_reasons().empty());
}

TEST_F(ServicesTest, SubmittingTwiceWithOneRequestIdMakesOneJob) {
  const auto first = client_->Submit(ClusterClient::AJob("a"), "same");
  const auto second = client_->Submit(ClusterClient::AJob("a"), "same");
  EXPECT_EQ(first->job().id(), second->job().id());
  const auto all = client_->Call(client_->jobs(), &v1::Jobs::Stub::List, v1::ListJobsRequest());
  EXPECT_EQ(all->jobs_size(), 1);
}

TEST_F(ServicesTest, AListComesInPagesThatOneMessageCanHold) {
  v1::JobSpec large = ClusterClient::AJob("large");
  (*large.mutable_env())["TEXT"] = std::string(100 << 10, 'x');
  constexpr int kJobs = 15;
  for (int i = 0; i < kJobs; ++i) client_->Submit(large, std::to_string(i));
  client_->Submit(ClusterClient::AJob("small"), "s");

  v1::ListJobsRequest request;
  const auto first = client_->Call(client_->jobs(), &v1::Jobs::Stub::List, request);
  ASSERT_TRUE(first->more());
  EXPECT_LT(first->ByteSizeLong(), 2u << 20);
  request.set_after(first->jobs().rbegin()->id());
  const auto second = client_->Call(client_->jobs(), &v1::Jobs::Stub::List, request);
  EXPECT_FALSE(second->more());
  EXPECT_EQ(first->jobs_size() + second->jobs_size(), kJobs + 1);
  EXPECT_EQ(second->jobs().rbegin()->spec().name(), "small");
}

TEST_F(ServicesTest, AListHoldsWhatWasAskedFor) {
  client_->Submit(ClusterClient::AJob("a"), "1");
  client_->Submit(ClusterClient::AJob("b"), "2");
  v1::ListJobsRequest request;
  request.set_name("b");
  const auto named = client_->Call(client_->jobs(), &v1::Jobs::Stub::List, request);
  ASSERT_EQ(named->jobs_size(), 1);
  EXPECT_EQ(named->jobs(0).spec().name(), "b");
  request.add_states(v1::JOB_STATE_RUNNING);
  EXPECT_EQ(client_->Call(client_->jobs(), &v1::Jobs::Stub::List, request)->jobs_size(), 0);
}

TEST_F(ServicesTest, ABadSpecIsRefusedByItsField) {
  const auto refused = client_->Submit(ClusterClient::AJob("a", -1), "r");
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.status.error_message(), HasSubstr("ranks is -1"));
}

TEST_F(ServicesTest, AnUnknownJobIsNotFound) {
  EXPECT_EQ(client_->GetJob(99).status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(WatchJob(99, 0, 30).status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(client_->ReadLogs(99, kLong).status.error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServicesTest, AWatchIsAnsweredByAChange) {
  const v1::Job job = client_->Submit(ClusterClient::AJob("a"), "r")->job();
  auto watch =
      std::async(std::launch::async, [&] { return WatchJob(job.id(), job.version(), 30); });
  AwaitParked(1);
  ASSERT_TRUE(client_->Register("w", 1).ok());
  const auto watched = watch.get();
  ASSERT_TRUE(watched.ok()) << watched.status.error_message();
  EXPECT_EQ(watched->job().state(), v1::JOB_STATE_STARTING);
  EXPECT_GT(watched->job().version(), job.version());
}

TEST_F(ServicesTest, AWatchThatTimesOutAnswersTheSameVersion) {
  const v1::Job job = client_->Submit(ClusterClient::AJob("a"), "r")->job();
  EXPECT_EQ(WatchJob(job.id(), job.version(), 0)->job().version(), job.version());
}

TEST_F(ServicesTest, CancellingAPendingJobEndsIt) {
  v1::CancelRequest request;
  request.set_job(client_->Submit(ClusterClient::AJob("a"), "r")->job().id());
  const auto cancelled = client_->Call(client_->jobs(), &v1::Jobs::Stub::Cancel, request);
  ASSERT_TRUE(cancelled.ok()) << cancelled.status.error_message();
  EXPECT_EQ(cancelled->job().state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(cancelled->job().failure().failure_class(), v1::FAILURE_CLASS_CANCEL);
}

TEST_F(ServicesTest, AWorkerSeesItsAssignmentAndItsWorldIsSealed) {
  const uint64_t job = PlacedJob(2);
  v1::WatchAssignmentRequest request;
  request.set_worker_id(worker_);
  request.set_incarnation(1);
  const auto watched =
      client_->Call(client_->workers(), &v1::Workers::Stub::WatchAssignment, request);
  ASSERT_EQ(watched->assignment().ranks_size(), 2);
  EXPECT_EQ(watched->assignment().ranks(1).world_size(), 2);
  EXPECT_EQ(watched->assignment().ranks(1).spec().name(), "job");
  EXPECT_TRUE(watched->assignment().ranks(1).has_owner());  // nobody: it came in plain text
  EXPECT_EQ(watched->assignment().ranks(1).owner(), "");
  EXPECT_EQ(client_->Join(job, 0)->world().state(), v1::WORLD_STATE_FORMING);
  const auto joined = client_->Join(job, 1);
  EXPECT_EQ(joined->world().state(), v1::WORLD_STATE_SEALED);
  EXPECT_EQ(joined->world().members(1).host(), "host-w");
  EXPECT_EQ(joined->spec().name(), "job");
}

TEST_F(ServicesTest, ARankWithAStorePortIsToldWhatItsStoreTakes) {
  const uint64_t worker = client_->Register("w", 1)->worker_id();
  v1::JobSpec spec;
  spec.set_name("job");
  spec.set_ranks(1);
  spec.mutable_command()->add_argv("true");
  spec.mutable_command()->set_working_dir("/");
  spec.mutable_command()->set_store("relay");
  ASSERT_TRUE(client_->Submit(spec, "request").ok());
  v1::WatchAssignmentRequest request;
  request.set_worker_id(worker);
  request.set_incarnation(1);
  const auto watched =
      client_->Call(client_->workers(), &v1::Workers::Stub::WatchAssignment, request);
  ASSERT_EQ(watched->assignment().ranks_size(), 1);
  EXPECT_NE(watched->assignment().ranks(0).store_port(), 0);
  EXPECT_EQ(watched->assignment().ranks(0).store_limits().key_bytes(), KeyValueLimits().key_bytes);
  EXPECT_EQ(watched->assignment().ranks(0).store_limits().value_bytes(),
            KeyValueLimits().value_bytes);
}

TEST_F(ServicesTest, AHeartbeatOfAnotherIncarnationIsRefused) {
  v1::HeartbeatRequest request;
  request.set_worker_id(client_->Register("w", 1)->worker_id());
  request.set_incarnation(1);
  EXPECT_TRUE(client_->Call(client_->workers(), &v1::Workers::Stub::Heartbeat, request).ok());
  request.set_incarnation(2);
  EXPECT_EQ(
      client_->Call(client_->workers(), &v1::Workers::Stub::Heartbeat, request).status.error_code(),
      grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(ServicesTest, AHeartbeatIsAnsweredWhileTheDriverIsBusy) {
  v1::HeartbeatRequest beat;
  const auto registered = client_->Register("w", 1);
  beat.set_worker_id(registered->worker_id());
  beat.set_incarnation(1);
  std::promise<void> begun, release;
  ASSERT_TRUE(driver_
                  ->Ask([&](const absl::Status&, const View&) {
                    begun.set_value();
                    release.get_future().wait();
                  })
                  .ok());
  begun.get_future().wait();
  const auto answer = client_->Call(client_->workers(), &v1::Workers::Stub::Heartbeat, beat);
  beat.add_gpu_list()->set_model("H100");
  const auto with_news = client_->Call(client_->workers(), &v1::Workers::Stub::Heartbeat, beat);
  release.set_value();
  ASSERT_TRUE(answer.ok()) << answer.status.error_message();
  EXPECT_EQ(answer->header().epoch(), registered->header().epoch());
  EXPECT_EQ(FromProto(answer->lease()), absl::Minutes(10));
  EXPECT_TRUE(with_news.ok());
  const auto listed =
      client_->Call(client_->workers(), &v1::Workers::Stub::List, v1::ListWorkersRequest());
  EXPECT_EQ(listed->workers(0).gpu_list(0).model(), "H100");
}

TEST_F(ServicesTest, AHeartbeatIsToldTheLeaseThatTheJobsOfItsWorkerAskFor) {
  const uint64_t worker = client_->Register("w", 1)->worker_id();
  v1::HeartbeatRequest beat;
  beat.set_worker_id(worker);
  beat.set_incarnation(1);
  const auto beat_once = [&] {
    return client_->Call(client_->workers(), &v1::Workers::Stub::Heartbeat, beat);
  };
  EXPECT_EQ(beat_once()->lease_number(), 0u);
  v1::JobSpec spec = ClusterClient::AJob("hasty");
  spec.mutable_detect_within()->set_seconds(4);
  ASSERT_TRUE(client_->Submit(spec, "r").ok());
  const auto told = beat_once();
  EXPECT_EQ(FromProto(told->lease()), absl::Seconds(3.2));
  EXPECT_GT(told->lease_number(), 0u);
}

TEST_F(ServicesTest, ARegistrationEndsTheLivesThatItProvesDead) {
  ASSERT_TRUE(client_->Register("w", 1).ok());
  v1::RegisterRequest request;
  request.set_name("w");
  request.set_host("w");
  request.set_incarnation(2);
  request.set_slots(1);
  EXPECT_EQ(
      client_->Call(client_->workers(), &v1::Workers::Stub::Register, request).status.error_code(),
      grpc::StatusCode::ALREADY_EXISTS);
  request.add_replaces(1);
  EXPECT_TRUE(client_->Call(client_->workers(), &v1::Workers::Stub::Register, request).ok());
}

TEST_F(ServicesTest, TheFirstStepOfAGenerationGoesOnRecord) {
  const uint64_t job = PlacedJob(1);
  v1::JoinRequest join;
  join.set_job(job);
  join.set_generation(1);
  join.set_tells_first_step(true);
  ASSERT_TRUE(client_->Call(client_->worlds(), &v1::Worlds::Stub::Join, join).ok());
  v1::CompleteFirstStepRequest request;
  request.set_job(job);
  request.set_generation(1);
  const size_t commands = journal_.commands().size();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(
        client_->Call(client_->worlds(), &v1::Worlds::Stub::CompleteFirstStep, request).ok());
  }
  EXPECT_EQ(journal_.commands().size(), commands + 1);
  request.set_generation(2);
  EXPECT_FALSE(
      client_->Call(client_->worlds(), &v1::Worlds::Stub::CompleteFirstStep, request).ok());
}

TEST_F(ServicesTest, AWorkersGpusAreListedAsItToldLastWhileItsLifeLasts) {
  v1::HeartbeatRequest beat;
  beat.set_worker_id(client_->Register("w", 1)->worker_id());
  beat.set_incarnation(1);
  const auto listed = [&] {
    return client_->Call(client_->workers(), &v1::Workers::Stub::List, v1::ListWorkersRequest())
        ->workers(0);
  };
  EXPECT_EQ(listed().gpu_list_size(), 0);
  beat.add_gpu_list()->set_model(std::string(5000, 'm'));
  for (int i = 0; i < 100; ++i) beat.add_gpu_list();
  ASSERT_TRUE(client_->Call(client_->workers(), &v1::Workers::Stub::Heartbeat, beat).ok());
  ASSERT_EQ(listed().gpu_list_size(), static_cast<int>(kGpusMax));
  EXPECT_EQ(listed().gpu_list(0).model().size(), kGpuWordBytesMax);
  beat.clear_gpu_list();  // nothing new
  ASSERT_TRUE(client_->Call(client_->workers(), &v1::Workers::Stub::Heartbeat, beat).ok());
  EXPECT_EQ(listed().gpu_list_size(), static_cast<int>(kGpusMax));
  beat.set_incarnation(2);
  beat.add_gpu_list();
  ASSERT_FALSE(client_->Call(client_->workers(), &v1::Workers::Stub::Heartbeat, beat).ok());
  EXPECT_EQ(listed().gpu_list_size(), static_cast<int>(kGpusMax));
}

TEST_F(ServicesTest, ARegistrationTellsOfGpusToo) {
  v1::RegisterRequest request;
  request.set_name("w");
  request.set_host("host");
  request.set_slots(1);
  request.set_incarnation(1);
  request.add_gpu_list()->set_name("GPU-a");
  request.set_no_gpu_trainer(std::string(9000, 'n'));
  ASSERT_TRUE(client_->Call(client_->workers(), &v1::Workers::Stub::Register, request).ok());
  const auto all =
      client_->Call(client_->workers(), &v1::Workers::Stub::List, v1::ListWorkersRequest());
  ASSERT_EQ(all->workers(0).gpu_list_size(), 1);
  EXPECT_EQ(all->workers(0).gpu_list(0).name(), "GPU-a");
  EXPECT_EQ(all->workers(0).no_gpu_trainer(), std::string(kLastLineBytesMax, 'n'));
  v1::HeartbeatRequest beat;  // without no_gpu_trainer, which stays
  beat.set_worker_id(all->workers(0).id());
  beat.set_incarnation(1);
  beat.add_gpu_list()->set_name("GPU-b");
  ASSERT_TRUE(client_->Call(client_->workers(), &v1::Workers::Stub::Heartbeat, beat).ok());
  const auto later =
      client_->Call(client_->workers(), &v1::Workers::Stub::List, v1::ListWorkersRequest());
  EXPECT_EQ(later->workers(0).gpu_list(0).name(), "GPU-b");
  EXPECT_EQ(later->workers(0).no_gpu_trainer(), all->workers(0).no_gpu_trainer());
}

TEST_F(ServicesTest, WorkersAreListedWithTheirFreeSlots) {
  PlacedJob(2);
  const auto all =
      client_->Call(client_->workers(), &v1::Workers::Stub::List, v1::ListWorkersRequest());
  ASSERT_EQ(all->workers_size(), 1);
  EXPECT_EQ(all->workers(0).slots(), 2);
  EXPECT_EQ(all->workers(0).free_slots(), 0);
  EXPECT_TRUE(all->workers(0).has_silent_for());
}

TEST_F(ServicesTest, AReportOfAStateThatIsTheCoordinatorsIsRefused) {
  const uint64_t job = PlacedJob();
  EXPECT_EQ(client_->Report(worker_, job, 0, v1::RANK_STATE_LOST).status.error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServicesTest, ACallIsGivenUpWhenItsClientGoesAway) {
  const uint64_t job = PlacedJob();
  v1::AwaitRequest request;
  request.set_job(job);
  request.set_generation(1);
  request.add_reads()->mutable_get()->set_key("key");
  request.mutable_timeout()->set_seconds(60);
  EXPECT_EQ(
      client_->Call(client_->store(), &v1::Store::Stub::Await, request, absl::Milliseconds(100))
          .status.error_code(),
      grpc::StatusCode::DEADLINE_EXCEEDED);
  AwaitParked(0);
}

TEST_F(ServicesTest, StoppingEndsWaitingCallsAsUnavailable) {
  const v1::Job job = client_->Submit(ClusterClient::AJob("a"), "r")->job();
  auto watch =
      std::async(std::launch::async, [&] { return WatchJob(job.id(), job.version(), 30); });
  AwaitParked(1);
  driver_->Stop();
  EXPECT_EQ(watch.get().status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServicesTest, HealthIsServing) {
  grpc::GenericStub stub(client_->channel());
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const grpc::Slice empty("");
  const grpc::ByteBuffer request(&empty, 1);
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, this);
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  ASSERT_TRUE(status.ok()) << status.error_message();
  grpc::Slice bytes;
  ASSERT_TRUE(response.DumpToSingleSlice(&bytes).ok());
  // HealthCheckResponse{status: SERVING}: field 1, value 1.
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "\x08\x01");
}

TEST_F(ServicesTest, ATakenPortIsAnErrorThatNamesIt) {
  const auto second = Server::Start(server_->address(), *driver_, *logs_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr(server_->address().ToString() + ": Address already in use"));
}

}  // namespace
}  // namespace dp::server
