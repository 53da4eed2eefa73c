#include <future>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "proto/convert/time.h"
#include "server/rpc/testing/services_fixture.h"

// Tests the queue, plans, events and drains through a real channel.

namespace dp::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class QueueServicesTest : public ServicesFixture {
 protected:
  QueueServicesTest() { options_.placement.limits.users["ann"] = {.slots = 1}; }

  uint64_t Register(const std::string& name, int slots = 1) {
    v1::RegisterRequest request;
    request.set_name(name);
    request.set_host("host-" + name);
    request.set_address("10.0.0.1");
    request.set_interface("eth7");
    request.set_incarnation(++life_);
    request.set_slots(slots);
    (*request.mutable_labels())["rack"] = "r1";
    return client_->Call(client_->workers(), &v1::Workers::Stub::Register, request)->worker_id();
  }
  Answered<v1::SubmitResponse> Submit(const v1::JobSpec& spec, const std::string& user = "bob") {
    v1::SubmitRequest request;
    request.set_request_id(absl::StrCat(++requests_));
    request.set_user(user);
    *request.mutable_spec() = spec;
    return client_->Call(client_->jobs(), &v1::Jobs::Stub::Submit, request);
  }
  Answered<v1::PlanResponse> Plan(const v1::JobSpec& spec, const std::string& user = "bob") {
    v1::PlanRequest request;
    request.set_user(user);
    *request.mutable_spec() = spec;
    return client_->Call(client_->jobs(), &v1::Jobs::Stub::Plan, request);
  }
  template <typename Request, typename Response>
  Answered<Response> OnJob(grpc::Status (v1::Jobs::Stub::*rpc)(grpc::ClientContext*, const Request&,
                                                               Response*),
                           uint64_t job) {
    Request request;
    request.set_job(job);
    return client_->Call(client_->jobs(), rpc, request);
  }
  v1::Job Get(uint64_t job) { return client_->GetJob(job)->job(); }
  static v1::JobSpec AJob(int ranks = 1) { return ClusterClient::AJob("job", ranks); }

 private:
  uint64_t life_ = 0;
  int requests_ = 0;
};

TEST_F(QueueServicesTest, AJobIsHeldReleasedAndRanked) {
  v1::JobSpec spec = AJob();
  spec.set_hold(true);
  const uint64_t held = Submit(spec)->job().id(), first = Submit(AJob())->job().id(),
                 other = Submit(AJob())->job().id();
  EXPECT_TRUE(Get(held).held());
  EXPECT_EQ(Get(held).waits_for(0).code(), v1::PENDING_CODE_HELD);
  EXPECT_EQ(Get(held).user(), "bob");
  EXPECT_EQ(Get(held).queue_position(), 0);
  EXPECT_EQ(Get(first).queue_position(), 1);
  v1::SetPriorityRequest request;
  request.set_job(other);
  request.set_priority(3);
  EXPECT_EQ(client_->Call(client_->jobs(), &v1::Jobs::Stub::SetPriority, request)->job().priority(),
            3);
  EXPECT_EQ(Get(first).queue_position(), 2);
  EXPECT_TRUE(OnJob(&v1::Jobs::Stub::Hold, other)->job().held());
  EXPECT_FALSE(OnJob(&v1::Jobs::Stub::Release, held)->job().held());
  EXPECT_TRUE(OnJob(&v1::Jobs::Stub::Requeue, held).ok());
  EXPECT_EQ(OnJob(&v1::Jobs::Stub::Hold, 99).status.error_code(), grpc::StatusCode::NOT_FOUND);
}

class UnfinishedJobsTest : public QueueServicesTest {
 protected:
  UnfinishedJobsTest() { options_.placement.limits.users["ann"] = {.unfinished = 2}; }
};

TEST_F(UnfinishedJobsTest, AUserWithTooManyIsToldSoAndOthersSubmit) {
  const uint64_t first = Submit(AJob(), "ann")->job().id();
  EXPECT_TRUE(Submit(AJob(), "ann").ok());
  const auto refused = Submit(AJob(), "ann");
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.status.error_message(),
            "user ann has 2 unfinished jobs, and the limit is 2; cancel some, wait until some are "
            "over, or have 'unfinished' raised in the file of dp-coordinator --limits");
  EXPECT_EQ(Plan(AJob(), "ann").status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Submit(AJob(), "bob").ok());
  EXPECT_TRUE(OnJob(&v1::Jobs::Stub::Requeue, first).ok());  // makes no further job
  EXPECT_TRUE(OnJob(&v1::Jobs::Stub::Cancel, first).ok());
  EXPECT_TRUE(Submit(AJob(), "ann").ok());
}

TEST_F(UnfinishedJobsTest, ARepeatedSubmissionIsAnswered) {
  v1::SubmitRequest request;
  request.set_user("ann");
  *request.mutable_spec() = AJob();
  for (const char* id : {"a", "b", "a", "b"}) {
    request.set_request_id(id);
    EXPECT_TRUE(client_->Call(client_->jobs(), &v1::Jobs::Stub::Submit, request).ok());
  }
}

// Submissions that arrive at once are counted one by one.
TEST_F(UnfinishedJobsTest, NoneSlipsThroughInABatch) {
  constexpr int kCallers = 16;
  std::vector<std::future<bool>> submitted;
  for (int i = 0; i < kCallers; ++i) {
    submitted.push_back(std::async(std::launch::async, [this, i] {
      v1::SubmitRequest request;
      request.set_request_id(absl::StrCat("batch ", i));
      request.set_user("ann");
      *request.mutable_spec() = AJob();
      return client_->Call(client_->jobs(), &v1::Jobs::Stub::Submit, request).ok();
    }));
  }
  int accepted = 0;
  for (std::future<bool>& each : submitted) accepted += each.get() ? 1 : 0;
  EXPECT_EQ(accepted, 2);
}

TEST_F(QueueServicesTest, TextsThatWouldBreakALineAreRefused) {
  EXPECT_EQ(Submit(AJob(), "bob\n\x1b[2J").status.error_message(),
            "user is \"bob\\n\\033[2J\"; give a name of UTF-8 without characters that cannot be "
            "seen, and "
            "without a space at either end");
  EXPECT_EQ(Plan(AJob(), "a\tb").status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(Submit(AJob(), "Jörg Müller").ok());
  v1::RegisterRequest worker;
  worker.set_name("a");
  worker.set_incarnation(1);
  worker.set_slots(1);
  worker.set_host("h\r");
  const auto refusal = [&] {
    return client_->Call(client_->workers(), &v1::Workers::Stub::Register, worker)
        .status.error_message();
  };
  EXPECT_EQ(refusal(), "host is \"h\\r\"; give one without control characters");
  worker.set_host("h");
  (*worker.mutable_labels())["rack"] = "r\n1";
  EXPECT_THAT(refusal(), HasSubstr("a label is \"rack=r\\n1\"; expected KEY=VALUE"));
  worker.mutable_labels()->clear();
  EXPECT_EQ(refusal(), "");
}

TEST_F(QueueServicesTest, AJobThatIsOverIsRemovedOnce) {
  const uint64_t over = Submit(AJob())->job().id(), waits = Submit(AJob())->job().id();
  OnJob(&v1::Jobs::Stub::Cancel, over);
  const auto refused = OnJob(&v1::Jobs::Stub::Remove, waits);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(refused.status.error_message(), "job 2 is pending, not over; cancel it first");
  EXPECT_TRUE(OnJob(&v1::Jobs::Stub::Remove, over).ok());
  EXPECT_EQ(client_->GetJob(over).status.error_code(), grpc::StatusCode::NOT_FOUND);
  // As a client does that has not got the answer.
  EXPECT_TRUE(OnJob(&v1::Jobs::Stub::Remove, over).ok());
  EXPECT_EQ(OnJob(&v1::Jobs::Stub::Remove, 99).status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Get(waits).id(), waits);
}

TEST_F(QueueServicesTest, AListMayAskForJobsThatAreOverForSoLong) {
  const uint64_t over = Submit(AJob())->job().id();
  Submit(AJob());
  OnJob(&v1::Jobs::Stub::Cancel, over);
  const auto listed = [this](absl::Duration finished_for) {
    v1::ListJobsRequest request;
    *request.mutable_finished_for() = ToProto(finished_for);
    std::vector<uint64_t> ids;
    const auto page = client_->Call(client_->jobs(), &v1::Jobs::Stub::List, request);
    for (const v1::Job& job : page->jobs()) ids.push_back(job.id());
    return ids;
  };
  EXPECT_THAT(listed(absl::ZeroDuration()), ElementsAre(over));
  EXPECT_THAT(listed(absl::Hours(1)), ElementsAre());
}

TEST_F(QueueServicesTest, APlanSaysWhereEachRankWouldRunAndChangesNothing) {
  Register("a", 2), Register("b", 1);
  const size_t commands = journal_.commands().size();
  const auto plan = Plan(AJob(3));
  ASSERT_TRUE(plan.ok()) << plan.status.error_message();
  ASSERT_EQ(plan->ranks_size(), 3);
  EXPECT_EQ(plan->ranks(1).worker(), "a");
  EXPECT_EQ(plan->ranks(1).local_rank(), 1);
  EXPECT_EQ(plan->ranks(2).host(), "host-b");
  EXPECT_EQ(plan->ranks(2).interface(), "eth7");
  EXPECT_EQ(plan->ranks(2).rack(), "r1");
  EXPECT_EQ(plan->spec().threads_per_rank(), 1);
  EXPECT_EQ(journal_.commands().size(), commands);
}

TEST_F(QueueServicesTest, APlanHasTheLeaseThatTheJobAsksFor) {
  const auto lease = [this](int64_t detect_within_s) {
    v1::JobSpec spec = AJob(1);
    spec.mutable_detect_within()->set_seconds(detect_within_s);
    const auto plan = Plan(spec);
    for (const v1::PlannedTimeout& timeout : plan->timeouts()) {
      if (timeout.name() == "lease") return FromProto(timeout.after());
    }
    return absl::ZeroDuration();
  };
  EXPECT_EQ(lease(4), absl::Seconds(3.2));
  EXPECT_EQ(lease(60), absl::Seconds(48));
  EXPECT_EQ(lease(3600), absl::Minutes(10));  // the coordinator's own lease
}

TEST_F(QueueServicesTest, APlanSaysWhyAJobWouldWait) {
  Register("a", 2);
  const uint64_t first = Submit(AJob(2))->job().id();
  const auto plan = Plan(AJob(2), "ann");
  EXPECT_EQ(plan->queue_position(), 1);
  ASSERT_EQ(plan->waits_for_size(), 2);
  EXPECT_EQ(plan->waits_for(0).text(), "user ann has 0 of 1 slots; the job alone is above that");
  EXPECT_THAT(plan->waits_for(1).jobs(), ElementsAre(first));
  EXPECT_EQ(Plan(AJob(-1)).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(QueueServicesTest, AWorkerIsDrainedAndUndrained) {
  Register("a");
  v1::DrainRequest drain;
  drain.set_worker("a");
  EXPECT_EQ(client_->Call(client_->workers(), &v1::Workers::Stub::Drain, drain).status.error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  drain.set_reason("disks");
  const auto drained = client_->Call(client_->workers(), &v1::Workers::Stub::Drain, drain);
  EXPECT_EQ(drained->worker().state(), v1::WORKER_STATE_DRAINED);
  EXPECT_EQ(drained->worker().reason(), "disks");
  EXPECT_EQ(drained->worker().labels().at("rack"), "r1");
  v1::UndrainRequest undrain;
  undrain.set_worker("a");
  undrain.set_reason("its pod ends");
  EXPECT_EQ(
      client_->Call(client_->workers(), &v1::Workers::Stub::Undrain, undrain).status.error_code(),
      grpc::StatusCode::FAILED_PRECONDITION);
  undrain.clear_reason();
  const auto back = client_->Call(client_->workers(), &v1::Workers::Stub::Undrain, undrain);
  EXPECT_EQ(back->worker().state(), v1::WORKER_STATE_READY);
  undrain.set_worker("b");
  EXPECT_EQ(
      client_->Call(client_->workers(), &v1::Workers::Stub::Undrain, undrain).status.error_code(),
      grpc::StatusCode::NOT_FOUND);
}

TEST_F(QueueServicesTest, WorkersAreWatchedByTheirVersion) {
  Register("a");
  v1::WatchWorkersRequest watch;
  const auto first = client_->Call(client_->workers(), &v1::Workers::Stub::Watch, watch);
  ASSERT_EQ(first->workers_size(), 1);
  Register("b");
  watch.set_since(first->version());
  watch.mutable_timeout()->set_seconds(30);
  const auto second = client_->Call(client_->workers(), &v1::Workers::Stub::Watch, watch);
  EXPECT_EQ(second->workers_size(), 2);
  EXPECT_GT(second->version(), first->version());
}

TEST_F(QueueServicesTest, EventsAreReadFromANumberOn) {
  const uint64_t job = Submit(AJob())->job().id();
  Register("a");
  v1::WatchEventsRequest request;
  const auto all = client_->Call(client_->jobs(), &v1::Jobs::Stub::WatchEvents, request);
  ASSERT_EQ(all->events_size(), 3);
  EXPECT_EQ(all->events(0).kind(), "submitted");
  EXPECT_EQ(all->events(1).worker(), "a");
  EXPECT_EQ(all->events(2).text(), "generation 1 on a");
  EXPECT_EQ(all->next_since(), 3u);
  request.set_job(job);
  request.set_since(1);
  const auto later = client_->Call(client_->jobs(), &v1::Jobs::Stub::WatchEvents, request);
  ASSERT_EQ(later->events_size(), 1);
  EXPECT_EQ(later->events(0).kind(), "placed");
  request.set_job(99);
  EXPECT_EQ(
      client_->Call(client_->jobs(), &v1::Jobs::Stub::WatchEvents, request).status.error_code(),
      grpc::StatusCode::NOT_FOUND);
}

TEST_F(QueueServicesTest, AJobWhoseTimeIsUpIsStoppedWithoutAnotherCall) {
  Register("a");
  v1::JobSpec spec = AJob();
  spec.mutable_max_duration()->set_seconds(1);
  const v1::Job placed = Submit(spec)->job();
  EXPECT_TRUE(placed.has_deadline());
  v1::WatchJobRequest watch;
  watch.set_job(placed.id());
  watch.set_since(placed.version());
  watch.mutable_timeout()->set_seconds(30);
  const auto stopping = client_->Call(client_->jobs(), &v1::Jobs::Stub::Watch, watch);
  EXPECT_EQ(stopping->job().state(), v1::JOB_STATE_STOPPING);
  EXPECT_EQ(stopping->job().failure().failure_class(), v1::FAILURE_CLASS_TIMEOUT);
  EXPECT_THAT(stopping->job().failure().message(), HasSubstr("maxDuration of 1s"));
}

}  // namespace
}  // namespace dp::server
