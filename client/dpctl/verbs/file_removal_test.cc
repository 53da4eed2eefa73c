// rm and prune, with the files of jobs.

#include "client/dpctl/testing/dpctl_test.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kTraining[] =
    R"(state: JOB_STATE_SUCCEEDED user: "ann" generation: 1 submitted_at { seconds: 5 }
       spec { name: "train" train { checkpoint { dir: "/ckpt" } output { weights: "/out/w" } } }
       ranks { worker: "w" host: "h" })";
constexpr char kRemovedAndLeft[] =
    R"(finished: true chunks { generation: 1 stream: LOG_STREAM_STDOUT
    data: "{\"kind\":\"KIND_REMOVED\",\"path\":\"/out/w\",\"bytes\":\"9\"}\n"
          "{\"kind\":\"KIND_LEFT\",\"path\":\"/ckpt/x\",\"reason\":\"no\"}\n" })";

// Job 5 is a training that is over; the job that removes its files gets the next number.
class FileRemovalTest : public DpctlTest {
 protected:
  FileRemovalTest() {
    coordinator_.now = now();
    Over(AddJob(5, kTraining));
    AddWorker("name: \"w\" host: \"h\" state: WORKER_STATE_READY");
    coordinator_.on_watch = [this](v1::Job& job) {
      seen_ = job;
      End(job);
    };
  }

  void Over(v1::Job& job) { *job.mutable_finished_at() = ToProto(now() - absl::Hours(48)); }
  void AddWorker(const std::string& text) {
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString(text, coordinator_.workers.add_workers()));
  }
  // The answers about the hosts of rank 0 and about the removal's output.
  void AddAnswers(const std::string& output) {
    AddLogPage("finished: true");
    AddLogPage(output);
  }
  // The end of the job that removes files.
  virtual void End(v1::Job& job) {
    job.set_state(v1::JOB_STATE_SUCCEEDED);
    job.set_version(job.version() + 1);
    Over(job);
  }

  v1::Job seen_;  // the job that removes files, before its end
};

TEST_F(FileRemovalTest, TheFilesGoFirstThenTheJobAndItsHelper) {
  AddAnswers(kRemovedAndLeft);
  const Result result = Dpctl("rm --with-files 5");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "/out/w on worker w is removed\n/ckpt/x on worker w stays: no\n"
            "job 5 (train) is removed\n");
  EXPECT_THAT(coordinator_.removed, ElementsAre(6, 5));
  EXPECT_TRUE(coordinator_.removed_with_files);
  EXPECT_THAT(seen_.spec().constraints(), ElementsAre("worker=w"));
}

TEST_F(FileRemovalTest, TheHelperRunsForTheOwnerOfTheFiles) {
  AddAnswers("finished: true");
  coordinator_.on_remove = [this] { coordinator_.user = ""; };
  std::string asked;
  coordinator_.on_watch = [&](v1::Job& job) {
    asked = coordinator_.user;
    End(job);
  };
  EXPECT_EQ(Dpctl("rm --with-files 5").code, 0);
  EXPECT_EQ(asked, "ann");
}

// The removal is a job of its own, which a viewer may not submit and has not named.
TEST_F(FileRemovalTest, WhoMayNotRemoveFilesReadsWhatTheyAskedFor) {
  coordinator_.submit_error = absl::PermissionDeniedError(
      "viewer vic may not call Jobs.Submit: it is not for the role viewer");
  for (const std::string command : {"rm --with-files 5", "rm --with-files --dry-run 5"}) {
    AddLogPage("finished: true");
    err_.str("");
    const Result result = Dpctl(command);
    EXPECT_EQ(result.code, 1);
    EXPECT_EQ(result.err,
              "dpctl: the files of job 5 may be listed and removed by its owner and by "
              "administrators only, so the job stays on record; 'dpctl whoami' shows your role\n");
  }
  EXPECT_THAT(coordinator_.removed, IsEmpty());
}

TEST_F(FileRemovalTest, ADryRunIsRefusedAsTheRemovalWouldBe) {
  coordinator_.access.who_am_i.set_role("viewer");
  coordinator_.access.who_am_i.set_name("vic");
  for (const std::string command :
       {"rm --dry-run 5", "rm --with-files --dry-run 5", "prune --older-than 0s --dry-run"}) {
    err_.str(""), out_.str("");
    const Result result = Dpctl(command);
    EXPECT_EQ(result.code, 1) << command;
    EXPECT_EQ(result.err,
              "dpctl: you are viewer vic, who may not remove jobs; administrators and users may\n")
        << command;
    EXPECT_EQ(result.out, "") << command;
  }
  EXPECT_EQ(coordinator_.submissions, 0);
}

TEST_F(FileRemovalTest, ProgramsGetTheFilesWithTheJob) {
  AddAnswers(kRemovedAndLeft);
  EXPECT_THAT(Dpctl("rm --with-files 5 -o json").out,
              AllOf(HasSubstr("\"id\": 5"),
                    HasSubstr("\"path\": \"/out/w\",\n      \"worker\": \"w\",\n      "
                              "\"outcome\": \"removed\",\n      \"bytes\": 9,\n      "
                              "\"reason\": null"),
                    HasSubstr("\"outcome\": \"left\"")));
}

TEST_F(FileRemovalTest, ADryRunKeepsTheJobAndRemovesItsHelper) {
  AddAnswers(kRemovedAndLeft);
  const Result result = Dpctl("rm --with-files --dry-run 5");
  EXPECT_THAT(result.out, AllOf(HasSubstr("/out/w on worker w would be removed\n"),
                                HasSubstr("job 5 (train) would be removed\n")));
  EXPECT_THAT(coordinator_.removed, ElementsAre(6));
  EXPECT_THAT(seen_.spec().command().argv(2), HasSubstr("\"dryRun\":true"));
}

TEST_F(FileRemovalTest, ADryRunWithoutFilesListsTheJob) {
  EXPECT_EQ(Dpctl("rm --dry-run 5").out, "job 5 (train) would be removed\n");
  EXPECT_THAT(coordinator_.removed, IsEmpty());
}

TEST_F(FileRemovalTest, AJobThatIsNotOverKeepsItsFiles) {
  coordinator_.jobs[5].set_state(v1::JOB_STATE_RUNNING);
  const Result result = Dpctl("rm --with-files 5");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "dpctl: job 5 is RUNNING, not over; cancel it first\n");
  EXPECT_EQ(coordinator_.jobs.size(), 1u);
}

TEST_F(FileRemovalTest, AFileThatCannotBeRemovedKeepsTheJob) {
  AddAnswers(R"(finished: true chunks { generation: 1 stream: LOG_STREAM_STDOUT
      data: "{\"kind\":\"KIND_FAILED\",\"path\":\"/out/w\",\"reason\":\"denied\"}\n" })");
  coordinator_.on_watch = [this](v1::Job& job) {
    End(job);
    job.set_state(v1::JOB_STATE_FAILED);
  };
  const Result result = Dpctl("rm --with-files 5");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(
      result.err,
      "dpctl: /out/w on worker w is not removed: denied\n"
      "dpctl: job 5 stays on record, because 1 of its files could not be removed; try again, or "
      "leave out --with-files\n");
  EXPECT_THAT(coordinator_.removed, ElementsAre(6));
}

TEST_F(FileRemovalTest, AWorkerThatCannotRemoveFilesIsAnError) {
  AddAnswers("finished: true");
  coordinator_.on_watch = [this](v1::Job& job) {
    End(job);
    job.set_state(v1::JOB_STATE_FAILED);
    job.mutable_failure()->set_failure_class(v1::FAILURE_CLASS_STARTUP);
    job.mutable_failure()->set_message("cannot run ${dp_trainer}");
  };
  EXPECT_THAT(Dpctl("rm --with-files 5").err,
              HasSubstr("were not removed: cannot run ${dp_trainer} (a dp-worker of an earlier "
                        "release cannot remove files)"));
  EXPECT_TRUE(coordinator_.jobs.contains(5));
}

TEST_F(FileRemovalTest, AWorkerThatIsGoneIsAnErrorBeforeAnythingHappens) {
  coordinator_.workers.Clear();
  AddLogPage("finished: true");
  const Result result = Dpctl("rm --with-files 5");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("/ckpt and /out/w are on worker w (host h), which is unknown"));
  EXPECT_EQ(coordinator_.jobs.size(), 1u);
  EXPECT_THAT(coordinator_.removed, IsEmpty());
}

TEST_F(FileRemovalTest, HostsOfEarlierGenerationsAreAskedToo) {
  AddWorker("name: \"v\" host: \"g\" state: WORKER_STATE_READY");
  AddLogPage("chunks { generation: 1 host: \"g\" data: \"x\" } chunks { host: \"h\" }");
  AddLogPage("finished: true");
  AddLogPage(kRemovedAndLeft);
  AddLogPage("finished: true");
  EXPECT_EQ(Dpctl("rm --with-files 5").code, 0) << err_.str();
  EXPECT_THAT(coordinator_.removed, ElementsAre(6, 6, 5));
  EXPECT_THAT(seen_.spec().constraints(), ElementsAre("worker=v"));
  EXPECT_THAT(coordinator_.log_reads[0].ranks(), ElementsAre(0));
}

TEST_F(FileRemovalTest, AJobThatGoesOnFromItsCheckpointKeepsThem) {
  v1::Job& heir = AddJob(8, R"(state: JOB_STATE_PENDING spec { train { resume { job: 5 } } })");
  EXPECT_THAT(Dpctl("rm --with-files 5").err,
              HasSubstr("job 8 goes on from a checkpoint of job 5"));
  EXPECT_THAT(coordinator_.removed, IsEmpty());
  heir.mutable_checkpoint()->set_step(1);
  AddAnswers("finished: true");
  EXPECT_EQ(Dpctl("rm --with-files 5").code, 0) << err_.str();
}

TEST_F(FileRemovalTest, FilesOfACommandJobStayAndNoHelperRuns) {
  Over(AddJob(9, R"(state: JOB_STATE_FAILED generation: 1 spec { name: "c" command {} })"));
  coordinator_.checkpoints[9].add_checkpoints()->set_path("/own");
  EXPECT_EQ(Dpctl("rm --with-files 9").out,
            "/own stays: the program of the job wrote it, not dp\njob 9 (c) is removed\n");
  EXPECT_THAT(coordinator_.removed, ElementsAre(9));
}

TEST_F(FileRemovalTest, AFileOnRecordThatIsNotThereIsMentioned) {
  coordinator_.checkpoints[5].add_checkpoints()->set_path("/ckpt/gone");
  AddAnswers("finished: true");
  const Result result = Dpctl("rm --with-files 5");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "dpctl: /ckpt/gone is not on worker w\n");
}

TEST_F(FileRemovalTest, AHelperThatCannotStartIsCancelledWithTheReason) {
  AddLogPage("finished: true");
  coordinator_.on_watch = [](v1::Job& job) {
    job.set_version(2);
    job.add_pending_reasons("no slot");
    job.add_waits_for()->set_code(v1::PENDING_CODE_UNSATISFIABLE);
  };
  coordinator_.on_cancel = [this] { Over(coordinator_.jobs[6]); };
  const Result result = Dpctl("rm --with-files 5");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("the job that removes the files cannot start: no slot"));
  EXPECT_THAT(coordinator_.cancelled, ElementsAre(6));
  EXPECT_THAT(coordinator_.removed, ElementsAre(6));
}

TEST_F(FileRemovalTest, CtrlCCancelsTheHelperAndKeepsTheJob) {
  AddLogPage("finished: true");
  coordinator_.on_watch = [this](v1::Job&) { interrupts_.Raise(); };
  const Result result = Dpctl("rm --with-files 5 5");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("dpctl: interrupted; job 5 stays on record, and job 6, which "
                                    "removes its files, is cancelled"));
  EXPECT_THAT(coordinator_.cancelled, ElementsAre(6));
  EXPECT_TRUE(coordinator_.jobs.contains(5));
}

TEST_F(FileRemovalTest, PruneRemovesTheFilesOfEachJob) {
  AddAnswers(kRemovedAndLeft);
  const Result result = Dpctl("prune --older-than 24h --with-files");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("/out/w on worker w is removed\n"));
  EXPECT_THAT(coordinator_.removed, ElementsAre(6, 5));
}

TEST_F(FileRemovalTest, PrunePrintsTheFilesOfEachJobForPrograms) {
  AddAnswers(kRemovedAndLeft);
  EXPECT_THAT(Dpctl("prune --older-than 24h --with-files --dry-run -o json").out,
              AllOf(HasSubstr("\"items\""), HasSubstr("\"files\""), HasSubstr("/ckpt/x")));
  EXPECT_TRUE(coordinator_.jobs.contains(5));
}

TEST_F(FileRemovalTest, FilesOnNeedsWithFiles) {
  EXPECT_EQ(Dpctl("rm --files-on w 5").code, 2);
  EXPECT_EQ(Dpctl("prune --older-than 1h --files-on w").code, 2);
  EXPECT_THAT(err_.str(), HasSubstr("add --with-files"));
  EXPECT_THAT(coordinator_.removed, IsEmpty());
}

TEST_F(FileRemovalTest, WithoutTheFlagNothingIsAskedOfAnyWorker) {
  EXPECT_THAT(Dpctl("rm 5 -o json").out, Not(HasSubstr("\"files\"")));
  EXPECT_THAT(coordinator_.removed, ElementsAre(5));
}

}  // namespace
}  // namespace dp::ctl
