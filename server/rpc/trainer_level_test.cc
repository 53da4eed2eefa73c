// Trainings with fields that a trainer would ignore wait for workers whose trainer knows them.

#include "proto/job/trainer_level.h"

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/testing/services_fixture.h"

namespace dp::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class TrainerLevelServiceTest : public ServicesFixture {
 protected:
  void Register(const std::string& name, uint64_t incarnation, int level) {
    v1::RegisterRequest request;
    request.set_name(name);
    request.set_host(name);
    request.set_address("127.0.0.1");
    request.set_incarnation(incarnation);
    request.set_slots(1);
    request.set_trainer_level(level);
    (*request.mutable_labels())["zone"] = "b";
    (*request.mutable_labels())["trainer-level-1"] = "so-it-says";
    const auto registered =
        client_->Call(client_->workers(), &v1::Workers::Stub::Register, request);
    ASSERT_TRUE(registered.ok()) << registered.status.error_message();
  }
  uint64_t SubmitWithSchedule() {
    v1::JobSpec spec = ClusterClient::AJob("job");
    spec.mutable_train()->mutable_schedule()->set_warmup_steps(3);
    return client_->Submit(spec, "request")->job().id();
  }
  v1::Job Get(uint64_t job) { return client_->GetJob(job)->job(); }
};

TEST_F(TrainerLevelServiceTest, AWorkerOfAnEarlierReleaseGetsNoRank) {
  Register("old", 1, /*level=*/0);
  const v1::Job job = Get(SubmitWithSchedule());
  EXPECT_EQ(job.state(), v1::JOB_STATE_PENDING);
  EXPECT_THAT(absl::StrJoin(job.pending_reasons(), "\n"),
              HasSubstr("; the trainer of worker old would ignore fields of this job: upgrade dp "
                        "on that worker"));
}

TEST_F(TrainerLevelServiceTest, AWorkerOfThisOrALaterReleaseGetsRanks) {
  for (const int level : {kTrainerLevel, kTrainerLevel + 1000}) {
    Register(absl::StrCat("w", level), level, level);
  }
  EXPECT_EQ(Get(SubmitWithSchedule()).state(), v1::JOB_STATE_STARTING);
}

TEST_F(TrainerLevelServiceTest, NobodyIsShownTheLevel) {
  Register("w", 1, kTrainerLevel);
  const auto listed =
      client_->Call(client_->workers(), &v1::Workers::Stub::List, v1::ListWorkersRequest());
  EXPECT_THAT(listed->workers(0).labels(), ElementsAre(Pair("zone", "b")));
}

}  // namespace
}  // namespace dp::server
