// To a user, a job of somebody else is one that is not there: no answer tells the two apart.

#include <functional>
#include <future>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/testing/tls_fixture.h"

namespace dp::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class HiddenJobsTest : public TlsFixture {
 protected:
  static constexpr uint64_t kNone = 99;

  void SetUp() override {
    TlsFixture::SetUp();
    bobs_ = As(kBob)->Submit(ClusterClient::AJob("secret"), "b")->job().id();
    anns_ = As(kAnn)->Submit(ClusterClient::AJob("mine"), "a")->job().id();
  }

  template <typename Stub, typename Request, typename Response>
  static std::string About(ClusterClient& caller, Stub& stub,
                           grpc::Status (Stub::*rpc)(grpc::ClientContext*, const Request&,
                                                     Response*),
                           uint64_t job) {
    Request request;
    request.set_job(job);
    const grpc::Status status = caller.Call(stub, rpc, request).status;
    return absl::StrCat(status.error_code(), " ", status.error_message());
  }
  // The answer of each RPC about the job to this caller, by the RPC's name.
  static std::map<std::string, std::string> AnswersAbout(uint64_t job, ClusterClient& to) {
    using Jobs = v1::Jobs::Stub;
    return {{"Get", About(to, to.jobs(), &Jobs::Get, job)},
            {"Watch", About(to, to.jobs(), &Jobs::Watch, job)},
            {"WatchEvents", About(to, to.jobs(), &Jobs::WatchEvents, job)},
            {"Cancel", About(to, to.jobs(), &Jobs::Cancel, job)},
            {"Hold", About(to, to.jobs(), &Jobs::Hold, job)},
            {"Release", About(to, to.jobs(), &Jobs::Release, job)},
            {"SetPriority", About(to, to.jobs(), &Jobs::SetPriority, job)},
            {"Requeue", About(to, to.jobs(), &Jobs::Requeue, job)},
            {"Remove", About(to, to.jobs(), &Jobs::Remove, job)},
            {"Logs.Read", About(to, to.logs(), &v1::Logs::Stub::Read, job)},
            {"Worlds.Watch", About(to, to.worlds(), &v1::Worlds::Stub::Watch, job)},
            {"Checkpoints.List", About(to, to.checkpoints(), &v1::Checkpoints::Stub::List, job)},
            {"ListWaiters", About(to, to.store(), &v1::Store::Stub::ListWaiters, job)},
            {"Execute", About(to, to.store(), &v1::Store::Stub::Execute, job)},
            {"Await", About(to, to.store(), &v1::Store::Stub::Await, job)}};
  }
  // The error of a job, or of a plan, that waits for the other.
  static std::string After(uint64_t job, ClusterClient& to, bool plan) {
    v1::JobSpec spec = ClusterClient::AJob("next");
    spec.add_after(absl::StrCat(job));
    if (!plan) return to.Submit(spec, absl::StrCat("after ", job)).status.error_message();
    v1::PlanRequest request;
    *request.mutable_spec() = spec;
    return to.Call(to.jobs(), &v1::Jobs::Stub::Plan, request).status.error_message();
  }
  std::string NumberRemoved(std::string answer, uint64_t job) {
    return absl::StrReplaceAll(answer, {{absl::StrCat("job ", job), "job N"}});
  }

  const security::Identity kAnn{Role::kUser, "ann"}, kBob{Role::kUser, "bob"};
  uint64_t bobs_ = 0, anns_ = 0;
};

TEST_F(HiddenJobsTest, AJobOfAnotherAndAJobThatIsNotThereGiveTheSameAnswers) {
  const auto ann = As(kAnn);
  const auto none = AnswersAbout(kNone, *ann);
  for (const auto& [rpc, answer] : AnswersAbout(bobs_, *ann)) {
    EXPECT_EQ(NumberRemoved(answer, bobs_), NumberRemoved(none.at(rpc), kNone)) << rpc;
    EXPECT_EQ(answer, absl::StrCat("5 job ", bobs_, " is not known; 'dpctl ps -a' lists all"))
        << rpc;
  }
}

TEST_F(HiddenJobsTest, NorCanAJobThatIsGoneBeToldFromThem) {
  const auto bob = As(kBob);
  About(*bob, bob->jobs(), &v1::Jobs::Stub::Cancel, bobs_);
  ASSERT_THAT(About(*bob, bob->jobs(), &v1::Jobs::Stub::Remove, bobs_), HasSubstr("0 "));
  const auto ann = As(kAnn);
  for (const auto& [rpc, answer] : AnswersAbout(bobs_, *ann)) {
    EXPECT_THAT(answer, HasSubstr("is not known")) << rpc;
  }
}

TEST_F(HiddenJobsTest, TheRemovalOfAJobIsAnEventForItsOwnerAndForThoseWhoSeeAllJobs) {
  const auto root = As({Role::kAdmin, "root"});
  About(*root, root->jobs(), &v1::Jobs::Stub::Cancel, bobs_);
  v1::RemoveRequest remove;
  remove.set_job(bobs_);
  remove.set_with_files(true);
  ASSERT_TRUE(root->Call(root->jobs(), &v1::Jobs::Stub::Remove, remove).ok());
  const auto removals = [this](const security::Identity& who) {
    const auto caller = As(who);
    std::vector<std::string> found;
    const auto answer = caller->Call(caller->jobs(), &v1::Jobs::Stub::WatchEvents, {});
    for (const v1::Event& event : answer->events()) {
      if (event.kind() == "removed") found.push_back(event.text() + " by " + event.actor());
    }
    return found;
  };
  for (const auto& who : {kBob, {Role::kAdmin, "root"}, {Role::kViewer, "vic"}}) {
    EXPECT_THAT(removals(who), ElementsAre(AllOf(HasSubstr("secret of bob, submitted at "),
                                                 HasSubstr(" by user bob; with its files"),
                                                 HasSubstr(" by admin root"))))
        << security::ToString(who);
  }
  EXPECT_THAT(removals(kAnn), IsEmpty());
}

// They have seen the job until now, and it was not removed.
TEST_F(HiddenJobsTest, WhoFollowsAJobAndMayNoLongerSeeItLearnsThat) {
  const auto vic = As({Role::kViewer, "vic"});
  auto watch = std::async(std::launch::async, [&] {
    v1::WatchJobRequest request;
    request.set_job(bobs_);
    request.set_since(vic->GetJob(bobs_)->job().version());
    request.mutable_timeout()->set_seconds(60);
    return vic->Call(vic->jobs(), &v1::Jobs::Stub::Watch, request, absl::Seconds(60)).status;
  });
  auto read = std::async(std::launch::async,
                         [&] { return vic->ReadLogs(bobs_, absl::Seconds(60)).status; });
  AwaitParked(2);
  Grant("vic", Role::kUser);
  const std::string belongs = absl::StrCat(": job ", bobs_, " belongs to bob");
  for (const auto& [rpc, ended] :
       {std::pair("Jobs.Watch", watch.get()), {"Logs.Read", read.get()}}) {
    EXPECT_EQ(ended.error_code(), grpc::StatusCode::PERMISSION_DENIED) << rpc;
    EXPECT_EQ(ended.error_message(), absl::StrCat("viewer vic may not call ", rpc, belongs));
  }
  EXPECT_THAT(About(*vic, vic->jobs(), &v1::Jobs::Stub::Get, bobs_), HasSubstr("is not known"));
}

TEST_F(HiddenJobsTest, AUsersOwnJobsAnswer) {
  const auto ann = As(kAnn);
  EXPECT_EQ(ann->GetJob(anns_)->job().spec().name(), "mine");
  EXPECT_EQ(After(anns_, *ann, /*plan=*/false), "");
}

TEST_F(HiddenJobsTest, NoJobWaitsForOneThatItsSubmitterMayNotSee) {
  const auto ann = As(kAnn);
  for (const bool plan : {false, true}) {
    const std::string refused = After(bobs_, *ann, plan);
    EXPECT_EQ(refused, absl::StrCat("after names job ", bobs_,
                                    ", which is not known; 'dpctl ps -a' lists all"));
    EXPECT_EQ(NumberRemoved(refused, bobs_), NumberRemoved(After(kNone, *ann, plan), kNone));
    EXPECT_EQ(After(bobs_, *As({Role::kAdmin, "root"}), plan), "");
  }
}

// A plan is no repetition of a job that was submitted under its request id.
TEST_F(HiddenJobsTest, NoRequestIdLeadsPastTheCheckOfAPlan) {
  const auto ann = As(kAnn);
  ASSERT_TRUE(ann->Submit(ClusterClient::AJob("mine"), "plan").ok());
  EXPECT_THAT(After(bobs_, *ann, /*plan=*/true), HasSubstr("is not known"));
}

// The repetition of a submission is answered, even if the job that it waits for is gone by now.
TEST_F(HiddenJobsTest, ARepeatedSubmissionIsNotCheckedAgain) {
  const auto ann = As(kAnn);
  ASSERT_EQ(After(anns_, *ann, /*plan=*/false), "");
  About(*ann, ann->jobs(), &v1::Jobs::Stub::Cancel, anns_);
  About(*ann, ann->jobs(), &v1::Jobs::Stub::Remove, anns_);
  EXPECT_EQ(After(anns_, *ann, /*plan=*/false), "");
}

TEST_F(HiddenJobsTest, AdministratorsSeeWhoAskedForWhoseJob) {
  const auto ann = As(kAnn), root = As({Role::kAdmin, "root"});
  ann->GetJob(bobs_);
  ann->GetJob(kNone);
  After(bobs_, *ann, /*plan=*/false);
  const auto listed = root->Call(root->access(), &v1::Access::Stub::ListRefusals, {});
  ASSERT_EQ(listed->refusals_size(), 2);
  EXPECT_EQ(listed->refusals(0).reason(),
            absl::StrCat("user ann may not call Jobs.Get: job ", bobs_, " belongs to bob"));
  EXPECT_EQ(listed->refusals(1).reason(),
            absl::StrCat("after names job ", bobs_, ", which belongs to bob"));
}

}  // namespace
}  // namespace dp::server
